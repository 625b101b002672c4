/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Call paths, each once: a context is the code that runs now and the context of its caller, so the
 * paths of a program make a tree. Its size depends on how many different paths there are, not on
 * how often they are taken.
 *
 * A recursive program has as many paths as it is deep. So a call that is on the path already leads
 * back to where it is: of a recursion, one turn is kept. A path has at most MAX_DEPTH calls; those
 * that are deeper count as the last of them.
 *
 * A program can have more paths than a trace should hold. Then the inner part gives way first:
 *  - of paths without Python code, those after the first MOST_NATIVE keep one caller, and after
 *    twice as many none;
 *  - after MOST_BELOW paths from Python code into other code, such code counts as the line of
 *    Python that runs;
 *  - after MOST_PYTHON paths of Python code, such code has no callers.
 * After MOST there are no new paths, and code counts as its caller. UNKNOWN stands for such code
 * without a caller.
 */
#include "recorder.h"

enum {
   FIRST_ROOM = 1 << 14,
   MOST_NATIVE = 1 << 18,
   MOST_BELOW = 1 << 18,
   MOST_PYTHON = 1 << 19,
   MOST = 1 << 21,
   UNKNOWN = 1, /* code 0 */
};

typedef struct {
   UInt code, caller; /* with the kind in the highest bit */
   UInt context;
} Entry;

/* Of the path to some code. */
typedef enum { WITHOUT_PYTHON, BELOW_PYTHON, IN_PYTHON } Sort;
static const UInt most[] = {MOST_NATIVE, MOST_BELOW, MOST_PYTHON};

static Context *contexts;
static UInt n_contexts = UNKNOWN + 1; /* the empty path is there, and that of what has no room */
static UInt n_of_sort[3];
static UInt room;           /* for contexts */
static Entry *table;        /* of 2 * ROOM places: some contexts are led back to by others */
static UInt entries;
static Bool lost;           /* there was no room for a path, or for its callers */

static Entry *find(UInt code, UInt caller)
{
   UWord hash = (code | (UWord)caller << 32) * 0x9E3779B97F4A7C15ULL;
   UInt at = (UInt)(hash >> 32) & (2 * room - 1);
   while (table[at].context != 0 && (table[at].code != code || table[at].caller != caller))
      at = (at + 1) & (2 * room - 1); /* ends: the table is never full */
   return &table[at];
}

/* Makes room for twice as many contexts. */
static void grow(void)
{
   UInt before = 2 * room;
   Entry *old = table;
   room = room == 0 ? FIRST_ROOM : 2 * room;
   contexts = VG_(realloc)("sweephand.contexts", contexts, room * sizeof *contexts);
   table = VG_(calloc)("sweephand.contexts", 2 * room, sizeof *table);
   for (UInt at = 0; at < before; at++)
      if (old[at].context != 0)
         *find(old[at].code, old[at].caller) = old[at];
   VG_(free)(old);
}

void contexts_open(void)
{
   grow();
   contexts[0] = (Context){0};
   contexts[UNKNOWN] = (Context){.depth = 1};
}

const Context *context(UInt n) { return &contexts[n]; }

Bool contexts_lost(void) { return lost; }

static Sort sort_of(UInt kind, const Context *caller)
{
   return kind == PYTHON ? IN_PYTHON : caller->python ? BELOW_PYTHON : WITHOUT_PYTHON;
}

/* The context on the path to CALLER that this call leads back to, or 0. */
static UInt turn_before(UInt caller, UInt kind, UInt code)
{
   for (; caller != 0; caller = contexts[caller].caller)
      if (contexts[caller].kind == kind && contexts[caller].code == code)
         return caller;
   return 0;
}

/* What stands for CODE inside CALLER if there are too many paths of its sort, 0 otherwise. */
static UInt shortened(UInt caller, UInt kind, UInt code)
{
   const Context *by = &contexts[caller];
   Sort sort = sort_of(kind, by);
   UInt n = n_of_sort[sort];
   if (caller == 0 || n < most[sort])
      return 0;
   lost = True;
   switch (sort) {
   case BELOW_PYTHON:
      return caller;
   case IN_PYTHON:
      return context_inside(0, PYTHON, code);
   default:
      if (n >= 2 * MOST_NATIVE)
         return context_inside(0, NATIVE, code);
      return by->depth > 1 ? context_inside(context_inside(0, NATIVE, by->code), NATIVE, code) : 0;
   }
}

/* The code inside CALLER. */
UInt context_inside(UInt caller, UInt kind, UInt code)
{
   Entry *entry = find(code, caller | kind << 31);
   if (LIKELY_(entry->context != 0))
      return entry->context;
   UInt instead = shortened(caller, kind, code);
   if (instead != 0)
      return instead;
   Bool full = n_contexts == room || entries == room / 2 * 3;
   if (full && room == MOST) {
      lost = True;
      return caller != 0 ? caller : UNKNOWN;
   }
   if (full) {
      grow();
      return context_inside(caller, kind, code);
   }
   const Context *by = &contexts[caller];
   UInt n = by->depth == MAX_DEPTH ? caller : turn_before(caller, kind, code);
   if (n == 0) {
      n_of_sort[sort_of(kind, by)]++;
      n = n_contexts++;
      contexts[n] = (Context){caller, kind, by->depth + 1, kind == PYTHON || by->python, code};
   }
   *entry = (Entry){code, caller | kind << 31, n};
   entries++;
   return n;
}
