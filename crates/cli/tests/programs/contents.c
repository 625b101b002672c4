// Pages of known contents: of every four in a row two are random, one is zero, and one is text.
// Uses all of them for some seconds, and checks them at the end.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAGE = 4096, PAGES = 2000 };

static const char *const words[] = {"page", "frame", "fault", "resident", "victim", "evict", "hand", "clock",
                                    "reference", "working", "set", "dirty", "clean", "policy", "memory", "age"};

static uint64_t state = 1;

static uint64_t next(void) {
   state ^= state << 13;
   state ^= state >> 7;
   state ^= state << 17;
   return state * 0x2545F4914F6CDD1D;
}

static void fill(unsigned char *page, int number) {
   if (number % 4 == 0) {
      // Written to, so that there is a page.
      ((volatile unsigned char *)page)[0] = 0;
   } else if (number % 4 == 1) {
      for (size_t at = 0; at < PAGE;) {
         char word[16];
         size_t length = (size_t)snprintf(word, sizeof word, "%s ", words[next() >> 60]);
         length = length < PAGE - at ? length : PAGE - at;
         memcpy(page + at, word, length);
         at += length;
      }
   } else {
      for (size_t at = 0; at < PAGE; at += 8) {
         uint64_t word = next();
         memcpy(page + at, &word, 8);
      }
   }
}

static uint64_t sum(const unsigned char *memory) {
   uint64_t all = 0;
   for (size_t page = 0; page < PAGES; page++) {
      for (size_t at = 0; at < PAGE; at += 64) {
         all = all * 31 + memory[page * PAGE + at];
      }
   }
   return all;
}

static double seconds(void) {
   struct timespec now;
   clock_gettime(CLOCK_MONOTONIC, &now);
   return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv) {
   double end = seconds() + (argc > 1 ? atof(argv[1]) : 1);
   unsigned char *memory = aligned_alloc(PAGE, (size_t)PAGES * PAGE);
   for (int page = 0; page < PAGES; page++) {
      fill(memory + (size_t)page * PAGE, page);
   }
   uint64_t first = sum(memory), last;
   do {
      last = sum(memory);
   } while (seconds() < end);
   printf(first == last ? "right" : "wrong");
   return first != last;
}
