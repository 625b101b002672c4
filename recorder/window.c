/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Runs, and which of them are kept.
 *
 * A run is a series of consecutive references to one page; its write flag is the OR of theirs. A
 * control record ends the run and the epoch, so that every record lies on the right side of it.
 *
 * Runs are cut greedily into epochs of at most K distinct pages. Of each page in an epoch only the
 * first and the last run are kept, in time order; the write flags of the dropped ones go into the
 * kept last one. Between two kept runs of one page there are fewer than K other pages, so LRU and
 * OPT with K frames or more cannot fault on a dropped one (the "safely allowed drop" of Kaplan,
 * Smaragdakis and Wilson): their fault counts stay exact. With K = 1 every run is a record.
 *
 * Of the code that makes references, the window keeps what began the first run of each page in an
 * epoch. The last run is not asked for: a page that was used within the last K pages is in memory.
 *
 * With K = 0 there is no window: every reference to a page becomes a record at once. Simulations
 * that count time in references need this.
 *
 * With --anonymous=yes, references to pages of files and of shared memory are left out where they
 * would become records. They still count as pages of an epoch.
 *
 * The pages of the current epoch lie in a small open hash table. While a program stays inside one
 * epoch a run costs a lookup and two stores, without a branch that depends on the data: a run that
 * goes on and a run that begins anew take the same path.
 */
#include "recorder.h"
#include "window.h"

#include "pub_tool_aspacemgr.h"

WindowPage window_table[WINDOW_TABLE];
UWord window_current = NO_PAGE;
ULong window_epoch = 1;

static UInt limit = 1;               /* K */
static UInt order[MAX_WINDOW];       /* places in the table, in order of first appearance */
static UInt distinct;                /* how many of them: the epoch's pages so far */
static Bool only_anonymous;
static WindowHooks ask;

void window_open(UInt pages, Bool anonymous, WindowHooks hooks)
{
   tl_assert(pages <= MAX_WINDOW);
   limit = pages;
   only_anonymous = anonymous;
   ask = hooks;
   for (UInt i = 0; i < WINDOW_TABLE; i++)
      window_table[i].page = NO_PAGE;
}

/* Pages whose last run is not their first, sorted by the time of the last. An insertion sort: there
   are at most K of them, mostly nearly in order. */
static UInt sort_last_runs(UInt *sorted)
{
   UInt n = 0;
   for (UInt i = 0; i < distinct; i++) {
      ULong last = window_table[order[i]].last;
      UInt at = n;
      if (last == window_table[order[i]].first)
         continue;
      for (; at > 0 && window_table[sorted[at - 1]].last > last; at--)
         sorted[at] = sorted[at - 1];
      sorted[at] = order[i];
      n++;
   }
   return n;
}

/* Whether references to the page become records. A page that has just been unmapped counts as
   anonymous. */
static Bool is_wanted(UWord page)
{
   if (LIKELY_(!only_anonymous))
      return True;
   const NSegment *segment = VG_(am_find_nsegment)(page << PAGE_SHIFT);
   return !segment || (segment->kind != SkFileC && segment->kind != SkShmC);
}

static void put(UWord page, UInt write)
{
   if (is_wanted(page))
      stream_reference(page, write);
}

/* Write the kept runs, first and last merged in time order, and empty the table. */
void window_close_epoch(void)
{
   UInt sorted[MAX_WINDOW];
   ask.before_close();
   UInt n_last = sort_last_runs(sorted), f = 0, l = 0;
   while (f < distinct || l < n_last) {
      const WindowPage *first = f < distinct ? &window_table[order[f]] : NULL;
      const WindowPage *last = l < n_last ? &window_table[sorted[l]] : NULL;
      if (first && (!last || first->first < last->last)) {
         if (is_wanted(first->page))
            ask.tell_place(first->code);
         put(first->page, (first->writes & WROTE_FIRST) != 0);
         f++;
      } else {
         put(last->page, (last->writes & WROTE_LATER) != 0);
         l++;
      }
   }
   for (UInt i = 0; i < distinct; i++)
      window_table[order[i]].page = NO_PAGE;
   distinct = 0;
   window_current = NO_PAGE;
   window_epoch++;
}

/* The page's place in the table, or the free one where it belongs. */
static UInt place_of(UWord page)
{
   UInt at = window_home(page);
   while (window_table[at].page != page && window_table[at].page != NO_PAGE)
      at = (at + 1) % WINDOW_TABLE; /* ends: at least fifteen places of sixteen are free */
   return at;
}

WindowPage *window_lookup(UWord page)
{
   WindowPage *p = &window_table[place_of(page)];
   return p->page == page ? p : NULL;
}

/* A page that is not at its home place: in its epoch by another place, or new to the epoch. */
void window_find(UWord page, UInt write, ULong run, Addr code)
{
   UInt at = place_of(page);
   if (window_table[at].page == page) {
      window_note(&window_table[at], write, run);
      return;
   }
   if (distinct == limit) {
      window_close_epoch();
      at = window_home(page);
   }
   window_table[at] = (WindowPage){page, run, run, write ? WROTE_FIRST : 0, ask.place_at(code)};
   order[distinct++] = at;
}

Bool window_is_open(void)
{
   return limit > 0;
}

void window_touch(UWord page, UInt write, Addr code)
{
   if (limit > 0) {
      WINDOW_TOUCH(page, write, totals.runs, window_current, code);
      return;
   }
   if (page != window_current && is_wanted(page))
      ask.tell_place(ask.place_at(code));
   totals.runs += page != window_current;
   window_current = page;
   put(page, write);
}
