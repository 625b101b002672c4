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
 * If a program has very many paths without Python code, those that come after MOST_PATHS keep one
 * caller, and after twice as many none. After MOST_CALLERS paths with Python code, such code has no
 * callers. After MOST there are no new paths: UNKNOWN stands for those.
 */
#include "recorder.h"

enum {
   MOST = 1 << 19,
   MOST_PATHS = 1 << 16,
   MOST_CALLERS = 1 << 16,
   UNKNOWN = 1, /* code 0 */
   TABLE_BITS = 20, /* room for some contexts that others lead back to */
   TABLE = 1 << TABLE_BITS,
};

typedef struct {
   UInt code, caller; /* with the kind in the highest bit */
   UInt context;
} Entry;

static Context *contexts;
static UInt n_contexts = UNKNOWN + 1; /* the empty path is there, and that of what has no room */
static UInt n_native;       /* those without Python code */
static Entry *table;
static UInt entries;

void contexts_open(void)
{
   contexts = VG_(calloc)("sweephand.contexts", MOST, sizeof *contexts);
   table = VG_(calloc)("sweephand.contexts", TABLE, sizeof *table);
   contexts[UNKNOWN].depth = 1;
}

const Context *context(UInt n) { return &contexts[n]; }

static Entry *find(UInt code, UInt caller)
{
   UWord hash = (code | (UWord)caller << 32) * 0x9E3779B97F4A7C15ULL;
   UInt at = (UInt)(hash >> (64 - TABLE_BITS));
   while (table[at].context != 0 && (table[at].code != code || table[at].caller != caller))
      at = (at + 1) % TABLE; /* ends: the table is never full */
   return &table[at];
}

/* The context on the path to CALLER that this call leads back to, or 0. */
static UInt turn_before(UInt caller, UInt kind, UInt code)
{
   for (; caller != 0; caller = contexts[caller].caller)
      if (contexts[caller].kind == kind && contexts[caller].code == code)
         return caller;
   return 0;
}

/* The code inside CALLER. */
UInt context_inside(UInt caller, UInt kind, UInt code)
{
   Entry *entry = find(code, caller | kind << 31);
   if (LIKELY_(entry->context != 0))
      return entry->context;
   const Context *by = &contexts[caller];
   if (n_native >= MOST_PATHS && caller != 0 && !by->python && kind == NATIVE) {
      if (n_native >= 2 * MOST_PATHS)
         return context_inside(0, NATIVE, code);
      if (by->depth > 1)
         return context_inside(context_inside(0, NATIVE, by->code), NATIVE, code);
   }
   if (n_contexts >= MOST || entries >= TABLE / 4 * 3)
      return UNKNOWN;
   if (n_contexts - n_native >= MOST_CALLERS && caller != 0 && by->python) {
      if (kind == PYTHON)
         return context_inside(0, PYTHON, code);
      if (by->kind == PYTHON && by->depth > 1)
         return context_inside(context_inside(0, PYTHON, by->code), NATIVE, code);
   }
   UInt n = by->depth == MAX_DEPTH ? caller : turn_before(caller, kind, code);
   if (n == 0) {
      n = n_contexts++;
      contexts[n] = (Context){caller, kind, by->depth + 1, kind == PYTHON || by->python, code};
      n_native += !contexts[n].python;
   }
   *entry = (Entry){code, caller | kind << 31, n};
   entries++;
   return n;
}
