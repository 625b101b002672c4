/* A linked list in no order of its nodes: have them in the order in which they are used. */
#include <stdio.h>
#include <stdlib.h>
struct node { struct node *next; long value; };
static struct node *make(long n) {
   struct node **all = malloc(n * sizeof *all), *first = NULL;
   for (long i = 0; i < n; i++) { all[i] = malloc(sizeof **all); all[i]->value = i; }
   unsigned long seed = 1;
   for (long i = n - 1; i > 0; i--) {
      seed = seed * 6364136223846793005 + 1442695040888963407;
      long j = (seed >> 33) % (i + 1);
      struct node *t = all[i]; all[i] = all[j]; all[j] = t;
   }
   for (long i = 0; i < n; i++) { all[i]->next = first; first = all[i]; }
   free(all);
   return first;
}
static long sum(struct node *first) {
   long s = 0;
   for (struct node *n = first; n; n = n->next) s += n->value;
   return s;
}
int main(void) {
   struct node *first = make(100000);
   long s = 0;
   for (int i = 0; i < 3; i++) s += sum(first);
   printf("%ld\n", s);
}
