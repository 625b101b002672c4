/* Probes of a hash table that is larger than memory, at random: sort them, or partition. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 1 << 20 };

static uint64_t random_number(void)
{
   static uint64_t seed = 88172645463325252ull;
   seed ^= seed << 13;
   seed ^= seed >> 7;
   seed ^= seed << 17;
   return seed;
}

static uint64_t *make_table(void)
{
   uint64_t *table = malloc(SLOTS * sizeof *table);
   for (int i = 0; i < SLOTS; i++)
      table[i] = random_number();
   return table;
}

static uint64_t probe(const uint64_t *table, uint64_t key)
{
   return table[key % SLOTS];
}

int main(void)
{
   uint64_t *table = make_table(), sum = 0;
   for (int i = 0; i < 200000; i++)
      sum += probe(table, random_number());
   printf("%lu\n", (unsigned long)sum);
   return 0;
}
