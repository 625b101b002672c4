/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The places in the program at which objects are made: call stacks.
 *
 * Valgrind keeps each different stack once (VG_(record_ExeContext)). The first time that one makes
 * an object of this recording, it goes into the stream as text: it must be described now, because
 * the library that it is in may be unloaded later. After that its number is enough.
 *
 * A stack is taken only for an object that is recorded, so its cost does not depend on how often
 * the program calls its allocator for less.
 */
#include "recorder.h"

#include "pub_tool_debuginfo.h"
#include "pub_tool_hashtable.h"

enum { MAX_TEXT = 16 * 1024 };

typedef struct {
   VgHashNode node; /* by Valgrind's number of the stack */
   ULong number;    /* in the stream */
} Place;

static Bool wanted;
static VgHashTable *places; /* those in the stream */
static ULong sent;
static HChar text[MAX_TEXT];
static UInt used;

/* Appends a line, or nothing if it is too long for what is left. */
static void put_line(const HChar *description, const HChar *module, ULong offset)
{
   HChar end[24];
   VG_(sprintf)(end, "\t%llx\n", offset);
   SizeT d = VG_(strlen)(description), m = VG_(strlen)(module), e = VG_(strlen)(end);
   if (used + d + 1 + m + e > MAX_TEXT)
      return;
   VG_(memcpy)(text + used, description, d);
   text[used + d] = '\t';
   VG_(memcpy)(text + used + d + 1, module, m);
   VG_(memcpy)(text + used + d + 1 + m, end, e);
   used += d + 1 + m + e;
}

/* A line for the code at IP, and before it one for each function that is inlined there. */
static void describe(UInt n, DiEpoch epoch, Addr ip, void *unused)
{
   DebugInfo *object = VG_(find_DebugInfo)(epoch, ip);
   const HChar *module = object ? VG_(DebugInfo_get_filename)(object) : "";
   ULong offset = object ? ip - VG_(DebugInfo_get_text_bias)(object) : ip;
   InlIPCursor *cursor = VG_(new_IIPC)(epoch, ip);
   do {
      /* "0x109146: step (relax.c:12)": the address differs from run to run. */
      const HChar *description = VG_(describe_IP)(epoch, ip, cursor);
      const HChar *rest = VG_(strstr)(description, ": ");
      put_line(rest ? rest + 2 : description, module ? module : "", offset);
   } while (VG_(next_IIPC)(cursor));
   VG_(delete_IIPC)(cursor);
}

void places_open(Bool stacks)
{
   wanted = stacks;
   places = VG_(HT_construct)("sweephand.places");
}

void places_restart(void)
{
   VG_(HT_destruct)(places, VG_(free));
   places = VG_(HT_construct)("sweephand.places");
   sent = 0;
}

ExeContext *place_here(ThreadId tid) { return wanted ? VG_(record_ExeContext)(tid, 0) : NULL; }

/* Follows the ALLOC of an object that was made at STACK. */
void place_of_object(ExeContext *stack)
{
   if (stack == NULL)
      return;
   UWord key = VG_(get_ECU_from_ExeContext)(stack);
   Place *place = VG_(HT_lookup)(places, key);
   if (place == NULL) {
      used = 0;
      VG_(apply_ExeContext)(describe, NULL, stack);
      stream_place(used, text);
      place = VG_(malloc)("sweephand.place", sizeof *place);
      place->node.key = key;
      place->number = sent++;
      VG_(HT_add_node)(places, place);
   }
   stream_control(OP_MADE, 1, &place->number);
}
