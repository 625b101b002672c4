/* An array of structures of which a loop uses one field: three quarters of each page are read for
   nothing. With an array for each field it would fit. */
#include <stdio.h>
#include <stdlib.h>

enum { N = 60000 };

struct particle { double mass, rest[15]; };

static struct particle *make(void)
{
   struct particle *all = malloc(N * sizeof *all);
   for (int i = 0; i < N; i++)
      all[i].mass = i;
   return all;
}

static double weigh(const struct particle *all, int by)
{
   double sum = 0;
   for (int i = 0; i < N; i++)
      sum += all[i].mass * by;
   return sum;
}

int main(void)
{
   struct particle *all = make();
   double sum = 0;
   for (int i = 0; i < 12; i++)
      sum += weigh(all, i);
   printf("%f\n", sum);
   return 0;
}
