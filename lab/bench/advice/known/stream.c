/* Goes over its data once: nothing helps, and there is nothing to say but that little memory is
   enough. */
#include <stdio.h>
#include <stdlib.h>

enum { N = 1 << 20 };

int main(void)
{
   long *data = malloc(N * sizeof *data), sum = 0;
   for (int i = 0; i < N; i++) {
      data[i] = i;
      sum += data[i];
   }
   printf("%ld\n", sum);
   return 0;
}
