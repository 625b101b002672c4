/* Matrix product: each row of the result goes over all of the right one. Advice: block it. */
#include <stdio.h>
#include <stdlib.h>

enum { N = 320 };

static double *matrix(int seed)
{
   double *m = malloc(N * N * sizeof *m);
   for (int i = 0; i < N * N; i++)
      m[i] = (i * 7 + seed) % 11;
   return m;
}

static void multiply(const double *left, const double *right, double *result)
{
   for (int i = 0; i < N; i++)
      for (int k = 0; k < N; k++)
         for (int j = 0; j < N; j++)
            result[i * N + j] += left[i * N + k] * right[k * N + j];
}

int main(void)
{
   double *left = matrix(1), *right = matrix(2), *result = matrix(3);
   multiply(left, right, result);
   printf("%f\n", result[N + 1]);
   return 0;
}
