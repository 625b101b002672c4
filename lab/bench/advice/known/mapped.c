/* A file that is read through mmap in no order: sort the offsets. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES = 2000, PAGE = 4096, READS = 40000 };

static const char *map(const char *path)
{
   int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
   if (file < 0 || ftruncate(file, PAGES * PAGE) != 0)
      exit(1);
   return mmap(NULL, PAGES * PAGE, PROT_READ, MAP_SHARED, file, 0);
}

static long read_at(const char *data, unsigned long offset)
{
   return data[offset];
}

int main(int argc, char **argv)
{
   const char *data = map(argc > 1 ? argv[1] : "mapped.data");
   unsigned long seed = 7;
   long sum = 0;
   for (int i = 0; i < READS; i++) {
      seed = seed * 6364136223846793005ul + 1442695040888963407ul;
      sum += read_at(data, (seed >> 33) % (PAGES * PAGE));
   }
   printf("%ld\n", sum);
   return 0;
}
