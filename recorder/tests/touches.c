/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pages touched at known lines. run.py has their numbers. */
#include <stdlib.h>
#include <string.h>

static __attribute__((noipa)) void write(volatile char *area)
{
   for (int page = 0; page < 64; page++)
      area[page * 4096] = 1;
}

static inline __attribute__((always_inline)) int read(volatile char *area, int sum)
{
   for (int page = 0; page < 64; page++)
      sum += area[page * 4096];
   return sum;
}

static __attribute__((noipa)) int twice(volatile char *area)
{
   int sum = 0;
   sum = read(area, sum);
   sum = read(area, sum + 1);
   return sum;
}

int main(void)
{
   char *area = malloc(64 * 4096);
   write(area);
   int sum = twice(area);
   memset(area, sum & 1, 64 * 4096);
   return area[100] == 77;
}
