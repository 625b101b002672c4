/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Objects made at known lines. run.py has their numbers. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static inline __attribute__((always_inline)) char *inlined(size_t n)
{
   /* So that the call is not on the first line of its function. */
   return malloc(n);
}

static __attribute__((noipa)) char *grid(size_t n)
{
   char *p = calloc(n, 2);
   p[0] = 1; /* no tail call */
   return p;
}

static __attribute__((noipa)) char *mapping(size_t n)
{
   char *p = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   p[0] = 1;
   return p;
}

int main(void)
{
   volatile char sum = 0;
   char *a = inlined(100000);
   for (int i = 0; i < 3; i++)
      sum += grid(45000)[i];
   memset(a, 1, 100000);
   sum += mapping(1 << 20)[5];
   return a[7] + sum == 1000;
}
