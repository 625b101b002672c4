/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The recorder from the log to the stream, outside Valgrind, where sanitizers can watch it:
 *
 *     outside SEED WINDOW STEPS EVERY > stream
 *
 * A program is made up from SEED: loops over paths like those of instrument.c, with pages that
 * change, accesses that are guarded and calls. EVERY becomes the list of its references: 8 bytes
 * each, the page and, in the lowest bit, whether it was written. outside.py compares. What the
 * recorder takes of Valgrind is at the end.
 */
#include "../log.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_vki.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_PATHS = 64, MOST_SLOTS = 6, MOST_ACCESSES = 4, PAGES = 40, FIRST_PAGE = 0x1000 };

static ULong state;
static FILE *every;
static Path *paths[MOST_PATHS];

static UInt below(UInt most)
{
   state += 0x9E3779B97F4A7C15ULL; /* SplitMix64 */
   ULong z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9ULL;
   z = (z ^ z >> 27) * 0x94D049BB133111EBULL;
   return (UInt)((z ^ z >> 31) % most);
}

static Addr some_code(void) { return 0x400000 + below(20000) * 4; }

/* Each slot's accesses are in memory of their own, so that one too many is noticed. */
static void make_slot(Slot *slot)
{
   UInt n = 1 + below(MOST_ACCESSES);
   Access *accesses = malloc(n * sizeof *accesses);
   Int at = (Int)below(64) - 32, end = at;
   *slot = (Slot){.offset = at, .n_accesses = n, .accesses = accesses};
   for (UInt i = 0; i < n; i++) {
      accesses[i] = (Access){at, 1 << below(4), below(3) == 0, some_code()};
      slot->write |= accesses[i].write;
      if (at + accesses[i].bytes > end)
         end = at + accesses[i].bytes;
      at += below(16);
   }
   slot->span = end - slot->offset - 1;
}

static Path *make_path(void)
{
   UInt n = below(MOST_SLOTS + 1);
   Path *path = calloc(1, sizeof *path + n * sizeof path->slots[0]);
   path->n_slots = n;
   path->words = 1 + n + below(3); /* other exits of the superblock fill more */
   path->instructions = 1 + below(400);
   for (UInt i = 0; i < n; i++) {
      make_slot(&path->slots[i]);
      path->references += path->slots[i].n_accesses;
   }
   if (n > 0)
      path->turn.kind = below(3);
   path->turn.slot = n > 0 ? below(n) : 0;
   path->turn.code = some_code();
   return path;
}

static void tell(const Slot *slot, UWord value)
{
   for (UInt i = 0; i < slot->n_accesses; i++) {
      Addr first = value + slot->accesses[i].offset, last = first + slot->accesses[i].bytes - 1;
      for (UWord page = page_of(first); page <= page_of(last); page++) {
         ULong word = page << 1 | slot->accesses[i].write;
         fwrite(&word, sizeof word, 1, every);
      }
   }
}

/* The program takes a path: what instrumented code does. */
static void take(const Path *path, const UWord *values)
{
   log_next[0] = (UWord)path;
   for (UInt i = 0; i < path->n_slots; i++) {
      log_next[1 + i] = values[i];
      if (values[i] != NOT_MADE)
         tell(&path->slots[i], values[i]);
   }
   log_next += path->words;
   if (log_next >= block_log + FULL_WORDS)
      replay();
}

/* Somewhere in a page: mostly in its middle, and sometimes so that accesses reach the next one. */
static UWord some_value(void)
{
   UWord start = (UWord)(FIRST_PAGE + below(PAGES)) << PAGE_SHIFT;
   return start + (below(8) == 0 ? PAGE_BYTES - below(64) : 128 + 8 * below(400));
}

/* A loop over a few paths. Some values go through memory, and some are not made in each turn. */
static void loop(void)
{
   UInt n = 1 + below(4), turns = 1 + below(below(4) == 0 ? 300 : 6);
   const Path *body[4];
   UWord values[4][MOST_SLOTS], steps[4][MOST_SLOTS];
   for (UInt p = 0; p < n; p++) {
      body[p] = paths[below(MOST_PATHS)];
      for (UInt i = 0; i < body[p]->n_slots; i++) {
         values[p][i] = below(20) == 0 ? NOT_MADE : some_value();
         steps[p][i] = below(3) == 0 && values[p][i] != NOT_MADE ? 8 * below(64) : 0;
      }
   }
   while (turns-- > 0)
      for (UInt p = 0; p < n; p++) {
         take(body[p], values[p]);
         for (UInt i = 0; i < body[p]->n_slots; i++)
            values[p][i] += steps[p][i];
      }
}

/* What happens between loops: memory goes, allocators are told of, threads take turns. */
static void event(void)
{
   ULong unmapped[] = {FIRST_PAGE + below(PAGES), 1 + below(3)};
   Addr start = (Addr)(FIRST_PAGE + below(PAGES)) << PAGE_SHIFT;
   switch (below(8)) {
   case 0:
      record(OP_UNMAP, 2, unmapped);
      break;
   case 1:
      small_arena(start, 1 + below(4 * PAGE_BYTES));
      break;
   case 2:
      if (small_is_told(below(3000)))
         small_add(start, 1 + below(3000), place_here(1));
      break;
   case 3:
      small_remove(start);
      break;
   case 4:
      log_switch(1 + below(3));
      break;
   case 5:
      log_leave(1 + below(3));
      break;
   default:
      flush_now_and_then();
   }
}

int main(int n, char **arguments)
{
   if (n != 5 || !(every = fopen(arguments[4], "wb")))
      return 2;
   state = strtoull(arguments[1], NULL, 10);
   UInt window = atoi(arguments[2]);
   for (UInt i = 0; i < MOST_PATHS; i++)
      paths[i] = make_path();
   places_open(True, True);
   stream_open(1, window, "outside");
   window_open(window, False, (WindowHooks){note_unexamined, place_of_code, place_of_references});
   log_open();
   for (UInt steps = atoi(arguments[3]); steps > 0; steps--) {
      loop();
      event();
   }
   replay();
   mark();
   places_end();
   ULong operands[] = {totals.instructions, totals.references, totals.runs, totals.records,
                       totals.objects, totals.object_peak_bytes, totals.syscall_pages};
   stream_control(OP_END, 7, operands);
   stream_flush();
   return fclose(every) != 0;
}

/* ---------------------------------------------------------------- in place of python.c */

Bool python_is_loop(Addr code) { return False; }
Bool python_runs(void) { return False; }
UInt python_here(ThreadId tid) { return 0; }
void python_changed(void) {}
const HChar *python_text(UInt line) { return ""; }
Bool python_lost(void) { return False; }

/* ---------------------------------------------------------------- in place of Valgrind's core */

/* Memory comes from the C library, so that a sanitizer knows its bounds. */
void *VG_(malloc)(const HChar *where, SizeT bytes) { return malloc(bytes); }
void *VG_(calloc)(const HChar *where, SizeT number, SizeT bytes) { return calloc(number, bytes); }
void *VG_(realloc)(const HChar *where, void *block, SizeT bytes) { return realloc(block, bytes); }
void VG_(free)(void *block) { free(block); }
HChar *VG_(strdup)(const HChar *where, const HChar *text) { return strdup(text); }

void *VG_(memcpy)(void *to, const void *from, SizeT bytes) { return memcpy(to, from, bytes); }
void *VG_(memset)(void *to, Int byte, SizeT bytes) { return memset(to, byte, bytes); }
SizeT VG_(strlen)(const HChar *text) { return strlen(text); }
HChar *VG_(strstr)(const HChar *text, const HChar *part) { return strstr(text, part); }
Int VG_(strncmp)(const HChar *one, const HChar *other, SizeT most) { return strncmp(one, other, most); }

UInt VG_(sprintf)(HChar *to, const HChar *format, ...)
{
   va_list list;
   va_start(list, format);
   Int n = vsprintf(to, format, list);
   va_end(list);
   return n;
}

UInt VG_(snprintf)(HChar *to, Int most, const HChar *format, ...)
{
   va_list list;
   va_start(list, format);
   Int n = vsnprintf(to, most, format, list);
   va_end(list);
   return n;
}

static UInt message(const HChar *format, va_list list)
{
   return vfprintf(stderr, format, list);
}

UInt VG_(umsg)(const HChar *format, ...)
{
   va_list list;
   va_start(list, format);
   UInt n = message(format, list);
   va_end(list);
   return n;
}

UInt VG_(fmsg)(const HChar *format, ...)
{
   va_list list;
   va_start(list, format);
   UInt n = message(format, list);
   va_end(list);
   return n;
}

void VG_(exit)(Int status) { exit(status); }

void VG_(assert_fail)(Bool core, const HChar *what, const HChar *file, Int line, const HChar *function,
                      const HChar *format, ...)
{
   fprintf(stderr, "%s:%d: %s\n", file, line, what);
   abort();
}

/* Files and time. A write takes part of what it is given now and then. */
Int VG_(fstat)(Int fd, struct vg_stat *file) { return 0; }
Int VG_(safe_fd)(Int fd) { return fd; }
void VG_(close)(Int fd) { close(fd); }
UInt VG_(read_millisecond_timer)(void)
{
   static UInt now;
   return now += 7;
}

Int VG_(write)(Int fd, const void *from, Int bytes)
{
   static UInt calls;
   return write(fd, from, ++calls % 5 == 0 && bytes > 1 ? bytes / 2 : bytes);
}

/* The program: one file, of which the lower half of the code has functions, and those lines. */
UInt VG_N_THREADS = 8;
NSegment const *VG_(am_find_nsegment)(Addr a) { return NULL; }
Addr VG_(get_IP)(ThreadId tid) { return 0x400000; }
DiEpoch VG_(current_DiEpoch)(void) { return (DiEpoch){1}; }
DebugInfo *VG_(find_DebugInfo)(DiEpoch epoch, Addr a) { return a % 64 == 0 ? NULL : (DebugInfo *)&state; }
const HChar *VG_(DebugInfo_get_filename)(const DebugInfo *object) { return "/bin/outside"; }
PtrdiffT VG_(DebugInfo_get_text_bias)(const DebugInfo *object) { return 0x400000; }

static Bool has_lines(Addr a) { return a < 0x400000 + 10000 * 4; }

Bool VG_(get_fnname)(DiEpoch epoch, Addr a, const HChar **name)
{
   static HChar text[32];
   snprintf(text, sizeof text, a < 0x400100 ? "(below main)" : "f%llx", (ULong)a >> 6);
   *name = text;
   return a % 32 != 0;
}

Bool VG_(get_filename_linenum)(DiEpoch epoch, Addr a, const HChar **file, const HChar **folder, UInt *line)
{
   *file = "outside.c";
   *line = a & 63;
   return has_lines(a);
}

/* How many functions are inlined at an address. */
struct _InlIPCursor {
   UInt left;
};
InlIPCursor *VG_(new_IIPC)(DiEpoch epoch, Addr a)
{
   InlIPCursor *cursor = malloc(sizeof *cursor);
   cursor->left = a >> 4 & 3;
   return cursor;
}
Bool VG_(next_IIPC)(InlIPCursor *cursor) { return cursor->left-- > 0; }
void VG_(delete_IIPC)(InlIPCursor *cursor) { free(cursor); }

const HChar *VG_(describe_IP)(DiEpoch epoch, Addr a, const InlIPCursor *cursor)
{
   static HChar text[64];
   snprintf(text, sizeof text, "0x%llX: f%llx (outside.c:%llu)", (ULong)a, (ULong)a >> 6, (ULong)a & 63);
   return text;
}
