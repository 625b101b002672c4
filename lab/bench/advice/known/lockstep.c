/* Two arrays in lock-step, again and again: finish a part of both before going on. */
#include <stdio.h>
#include <stdlib.h>

enum { N = 400000 };

static double *array(void)
{
   double *a = malloc(N * sizeof *a);
   for (int i = 0; i < N; i++)
      a[i] = i;
   return a;
}

static void step(double *to, const double *from)
{
   for (int i = 0; i < N; i++)
      to[i] = to[i] * 0.5 + from[i];
}

int main(void)
{
   double *to = array(), *from = array();
   for (int i = 0; i < 8; i++)
      step(to, from);
   printf("%f\n", to[N - 1]);
   return 0;
}
