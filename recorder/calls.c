/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The functions that each thread is in, as the log tells: replay() reports the superblocks that end
 * in a call or a return, with the address of the return address on the stack. So while the log is
 * replayed, this is exact for each of its references, whatever the program has done since.
 *
 * A call that is left in another way (longjmp, an exception, another stack) goes when a later call
 * or return happens above it. A function that another one reaches by a jump, as the last thing that
 * it does, counts as that one.
 */
#include "log.h"

#include "pub_tool_threadstate.h"

enum { MOST_DEPTH = 4096 }; /* deeper calls count as their caller */

typedef struct {
   Addr sp; /* where its return address is */
   Addr code;
   UInt context; /* 0: not asked for yet, or below main */
} Call;

typedef struct {
   UInt depth;
   Call calls[MOST_DEPTH];
} Calls;

static Calls **of_threads;
static Calls *now;
static ThreadId running; /* 0: none yet, or it has ended */

void calls_open(void)
{
   of_threads = VG_(calloc)("sweephand.calls", VG_N_THREADS, sizeof *of_threads);
}

ThreadId calls_thread(void) { return running; }

void calls_switch(ThreadId tid)
{
   running = tid;
   if (of_threads[tid] == NULL)
      of_threads[tid] = VG_(calloc)("sweephand.calls", 1, sizeof(Calls));
   now = of_threads[tid];
   python_changed();
}

void calls_end(ThreadId tid)
{
   if (of_threads[tid] == NULL)
      return;
   if (tid == running) {
      running = 0; /* Valgrind knows it no longer */
      now = NULL;
      python_changed();
   }
   of_threads[tid]->depth = 0;
}

void calls_turn(const Turn *turn, const UWord *values)
{
   if (now == NULL || values[turn->slot] == NOT_MADE)
      return;
   Addr sp = values[turn->slot] + turn->offset;
   while (now->depth > 0 && now->calls[now->depth - 1].sp <= sp)
      now->depth--;
   if (turn->kind == CALLS && now->depth < MOST_DEPTH)
      now->calls[now->depth++] = (Call){sp, turn->code, 0};
}

/* Is this inside Python code that is known? */
static Bool in_python;
Bool calls_in_python(void) { return in_python; }

/* If there is Python code, its functions take the place of the interpreter's, and what they have
   called is left out. */
UInt calls_here(void)
{
   in_python = False;
   if (python_runs()) {
      UInt here = python_here(running);
      in_python = here != 0;
      if (in_python)
         return here;
   }
   if (now == NULL)
      return 0;
   UInt known = now->depth;
   while (known > 0 && now->calls[known - 1].context == 0)
      known--;
   UInt n = known > 0 ? now->calls[known - 1].context : 0;
   for (; known < now->depth; known++) {
      UInt site = site_of(now->calls[known].code, False);
      n = site_is_below_main(site) ? 0 : context_inside(n, NATIVE, site);
      now->calls[known].context = n;
   }
   return n;
}
