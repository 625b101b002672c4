/* A large buffer that is used once and kept, beside a table that is used all the time: give the
   buffer back. */
#include <stdio.h>
#include <stdlib.h>

enum { BUFFER = 1 << 20, TABLE = 1 << 18 };

static long *load(void)
{
   long *buffer = malloc(BUFFER * sizeof *buffer);
   for (long i = 0; i < BUFFER; i++)
      buffer[i] = i;
   return buffer;
}

static long digest(const long *buffer, long *table)
{
   long sum = 0;
   for (long i = 0; i < BUFFER; i++) {
      sum += buffer[i];
      table[i % TABLE] += sum;
   }
   return sum;
}

int main(void)
{
   long *buffer = load(), *table = calloc(TABLE, sizeof *table);
   long sum = digest(buffer, table);
   printf("%ld\n", sum);
   return 0;
}
