/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The inner part of window.c, shared with the loop of replay(), which keeps the number of runs and
 * the current page in registers.
 */
#ifndef WINDOW_H
#define WINDOW_H

#include "recorder.h"

enum {
   WINDOW_TABLE_BITS = 12, /* sixteen places for each page of the largest window */
   WINDOW_TABLE = 1 << WINDOW_TABLE_BITS,
   WROTE_FIRST = 1, /* the page's first run in the epoch wrote */
   WROTE_LATER = 2, /* a later one did */
};

/* One page of the current epoch; times are numbers of runs. */
typedef struct {
   UWord page; /* NO_PAGE: the place is free */
   ULong first;
   ULong last;
   ULong writes;
   UInt code; /* the place of the code that began the first run (places.c) */
} WindowPage;

extern WindowPage window_table[WINDOW_TABLE];
extern UWord window_current; /* the page of the run that is going on, or NO_PAGE */
extern ULong window_epoch;   /* the number of the current epoch, from 1 */

void window_find(UWord page, UInt write, ULong run, Addr code);
WindowPage *window_lookup(UWord page); /* NULL: not in this epoch */

/* Arrays of a power of two bytes march in step: the low bits of their pages are equal, so a
   multiplicative hash (Fibonacci's constant), not a mask. */
static inline UInt window_home(UWord page)
{
   return (UInt)((page * 0x9E3779B97F4A7C15ULL) >> (64 - WINDOW_TABLE_BITS));
}

static inline void window_note(WindowPage *p, UInt write, ULong run)
{
   p->last = run;
   p->writes |= (ULong)write << (p->first != run);
}

/* One reference by the instruction at CODE, which is looked at only if the page is new. RUNS counts
   the runs; CURRENT is the page of the last reference. */
#define WINDOW_TOUCH(PAGE, WRITE, RUNS, CURRENT, CODE)                                              \
   do {                                                                                             \
      UWord page_ = (PAGE);                                                                         \
      WindowPage *home_ = &window_table[window_home(page_)];                                        \
      (RUNS) += page_ != (CURRENT);                                                                 \
      if (LIKELY_(home_->page == page_))                                                            \
         window_note(home_, (WRITE), (RUNS));                                                       \
      else                                                                                          \
         window_find(page_, (WRITE), (RUNS), (CODE));                                               \
      (CURRENT) = page_;                                                                            \
   } while (0)

#endif
