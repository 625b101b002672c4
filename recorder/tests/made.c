/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Makes 64 functions as it runs, in two pages of code, and calls each with a page of its own. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, FUNCTIONS = 64, EACH = 2 * PAGE / FUNCTIONS };

int main(void)
{
   static const unsigned char load[] = {0x8a, 0x07, 0xc3}; /* mov (%rdi), %al; ret */
   static char pages[(FUNCTIONS + 1) * PAGE];
   char *code = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   for (int f = 0; f < FUNCTIONS; f++)
      memcpy(code + f * EACH, load, sizeof load);
   for (int f = 0; f < FUNCTIONS; f++)
      ((void (*)(char *))(code + f * EACH))(pages + (f + 1) * PAGE);
   printf("code %ld\n", (long)code);
   return 0;
}
