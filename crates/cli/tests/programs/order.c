/* Touches pages in an order that a seed says: four of five touches are to a fifth of the pages.
 * At the end it goes through all pages.
 *
 *   order PAGES TOUCHES SEED         touches, some microseconds apart, and verifies it
 *   order PAGES TOUCHES SEED print   prints the order instead
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 4096, PAUSE = 120000 };

static uint64_t state;

static uint64_t below(uint64_t bound)
{
   state ^= state << 13;
   state ^= state >> 7;
   state ^= state << 17;
   return state % bound;
}

static uint64_t next(uint64_t pages)
{
   return below(5) ? below(pages / 5) : below(pages);
}

static void rest(void)
{
   for (volatile int pause = 0; pause < PAUSE; pause++)
      ;
}

int main(int argc, char **argv)
{
   uint64_t pages = strtoull(argv[1], NULL, 10), touches = strtoull(argv[2], NULL, 10);
   state = strtoull(argv[3], NULL, 10);
   if (argc > 4) {
      for (uint64_t i = 0; i < touches; i++)
         printf("%llu\n", (unsigned long long)next(pages));
      for (uint64_t page = 0; page < pages; page++)
         printf("%llu\n", (unsigned long long)page);
      return 0;
   }
   char *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   if (memory == MAP_FAILED)
      return 1;
   uint64_t sum = 0;
   for (uint64_t i = 0; i < touches; i++) {
      volatile uint64_t *word = (volatile uint64_t *)(memory + next(pages) * PAGE);
      *word += 1;
      rest();
   }
   for (uint64_t page = 0; page < pages; page++) {
      sum += *(volatile uint64_t *)(memory + page * PAGE);
      rest();
   }
   puts(sum == touches ? "right" : "wrong");
   return sum != touches;
}
