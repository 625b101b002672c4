/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The replay of the log: what instrumented code has done becomes references, runs and instructions.
 * instrument.c says what is in the log.
 *
 * Most of what a program does is take the same paths over the same pages again; replay() notices
 * ("Settled paths", below).
 */
#include "log.h"
#include "window.h"

enum { MARK_INSTRUCTIONS = 1000000 };

UWord block_log[FULL_WORDS + BLOCK_WORDS];
UWord *log_next = block_log;
static ULong next_mark = MARK_INSTRUCTIONS;

/* ---------------------------------------------------------------- one superblock in the log */

/* One slot, access by access: they lie on more than one page, or each counts. */
static void replay_scattered(const Slot *slot, UWord value)
{
   for (UInt i = 0; i < slot->n_accesses; i++) {
      const Access *a = &slot->accesses[i];
      Addr start = value + a->offset;
      UWord last = page_of(start + a->bytes - 1);
      for (UWord page = page_of(start); page <= last; page++)
         window_touch(page, a->write, a->code);
   }
}

/* One path, slot by slot. Returns the references that it made. */
static inline UInt replay_path(const Path *path, const UWord *values, ULong *runs, UWord *current)
{
   UInt references = path->references;
   for (const Slot *slot = path->slots, *end = slot + path->n_slots; slot < end; slot++) {
      UWord value = *values++;
      Addr start = value + slot->offset;
      if (LIKELY_((start & (PAGE_BYTES - 1)) + slot->span < PAGE_BYTES && value != NOT_MADE)) {
         WINDOW_TOUCH(page_of(start), slot->write, *runs, *current, slot->accesses->code);
      } else if (value == NOT_MADE) {
         references -= slot->n_accesses;
      } else {
         totals.runs = *runs;
         window_current = *current;
         replay_scattered(slot, value);
         *runs = totals.runs;
         *current = window_current;
      }
   }
   return references;
}

/* One path, access by access: where there is no window. Returns the references that it made. */
static UInt replay_each(const Path *path, const UWord *values)
{
   UInt references = path->references;
   for (const Slot *slot = path->slots, *end = slot + path->n_slots; slot < end; slot++) {
      UWord value = *values++;
      if (value == NOT_MADE)
         references -= slot->n_accesses;
      else
         replay_scattered(slot, value);
   }
   return references;
}

/*
 * Settled paths. A loop takes the same paths over the same pages again and again. Once every page
 * of a path has had a later run in the current epoch (and a later write, if the path writes it),
 * taking the path again can change only two things: the number of runs, and the order of the pages'
 * last runs. The first is an addition. The second is put off until someone asks for it: the path
 * remembers in which run it began the last time, and note_unexamined() works out its pages' last
 * runs from that. What remains of a turn of the loop is to see that each value still lies on the
 * page it lay on.
 */
static Path *unexamined; /* the paths for which that may still have to be done */

static inline Bool on_same_pages(const Path *path, const UWord *values)
{
   UWord apart = 0;
   for (const Slot *slot = path->slots, *end = slot + path->n_slots; slot < end; slot++) {
      UWord distance = *values++ - slot->home;
      apart |= distance | (distance + slot->span);
   }
   return apart < PAGE_BYTES;
}

static inline UInt pass_unexamined(Path *path, ULong *runs, UWord *current)
{
   *runs += path->first_page != *current;
   if (!path->listed) {
      path->listed = True;
      path->next_unexamined = unexamined;
      unexamined = path;
   }
   path->latest = *runs;
   *runs += path->changes;
   *current = path->last_page;
   return path->made;
}

/* Make good what PATH has put off. */
static void note_latest(Path *path)
{
   ULong run = path->latest;
   UWord current = path->first_page;
   for (UInt i = 0; path->latest != 0 && i < path->n_slots; i++) {
      const Slot *slot = &path->slots[i];
      UWord page = page_of(slot->home + slot->offset);
      if (slot->home == NOT_MADE)
         continue;
      run += page != current;
      current = page;
      WindowPage *p = window_lookup(page);
      if (p->last < run)
         p->last = run;
   }
   path->latest = 0;
}

void note_unexamined(void)
{
   for (Path *path = unexamined; path; path = path->next_unexamined) {
      note_latest(path);
      path->listed = False;
   }
   unexamined = NULL;
}

/* Settle the path if it can be: it has just been taken with these values. */
static void settle(Path *path, const UWord *values)
{
   UWord current = NO_PAGE;
   note_latest(path);
   path->settled_epoch = 0;
   path->changes = 0;
   path->made = path->references;
   for (UInt i = 0; i < path->n_slots; i++) {
      Slot *slot = &path->slots[i];
      Addr start = values[i] + slot->offset;
      if (values[i] == NOT_MADE) {
         slot->home = NOT_MADE;
         path->made -= slot->n_accesses;
         continue;
      }
      const WindowPage *p = window_lookup(page_of(start));
      if ((start & (PAGE_BYTES - 1)) + slot->span >= PAGE_BYTES || !p || p->first == p->last
          || (slot->write && !(p->writes & WROTE_LATER)))
         return;
      slot->home = (start & ~(UWord)(PAGE_BYTES - 1)) - slot->offset;
      if (current == NO_PAGE)
         path->first_page = p->page;
      else
         path->changes += p->page != current;
      current = p->page;
   }
   path->last_page = current;
   if (current != NO_PAGE)
      path->settled_epoch = window_epoch;
}

/* ---------------------------------------------------------------- replay */

static void clear_log(void)
{
   UWord *at = block_log, words = log_next - block_log;
   __asm__ volatile("rep stosq" : "+D"(at), "+c"(words) : "a"(NOT_MADE) : "memory");
   log_next = block_log;
}

void replay(void)
{
   const UWord *at = block_log, *end = log_next;
   ULong runs = totals.runs;
   UWord current = window_current;
   const Bool windowed = window_is_open();
   python_changed();
   while (recording && at < end) {
      Path *path = (Path *)at[0];
      if (LIKELY_(path->settled_epoch == window_epoch && on_same_pages(path, at + 1))) {
         totals.references += pass_unexamined(path, &runs, &current);
      } else if (UNLIKELY_(!windowed)) {
         totals.runs = runs;
         window_current = current;
         totals.references += replay_each(path, at + 1);
         runs = totals.runs;
         current = window_current;
      } else {
         Bool again = path->seen_epoch == window_epoch;
         totals.references += replay_path(path, at + 1, &runs, &current);
         path->seen_epoch = window_epoch;
         if (again)
            settle(path, at + 1);
      }
      totals.instructions += path->instructions;
      if (UNLIKELY_(path->turn.kind != GOES_ON))
         calls_turn(&path->turn, at + 1);
      at += path->words;
      if (UNLIKELY_(totals.instructions >= next_mark)) {
         totals.runs = runs;
         mark();
         current = window_current;
         next_mark = totals.instructions + MARK_INSTRUCTIONS;
      }
   }
   totals.runs = runs;
   window_current = current;
   clear_log();
}

void record(Op op, UInt n, const ULong *operands)
{
   if (!recording)
      return;
   replay();
   window_close_epoch();
   stream_control(op, n, operands);
}

void log_switch(ThreadId tid)
{
   if (tid == calls_thread())
      return;
   replay(); /* the log is still that of the thread before */
   calls_switch(tid);
}

void log_leave(ThreadId tid)
{
   if (tid == calls_thread())
      replay();
   calls_end(tid);
}

void log_restart(void) { next_mark = MARK_INSTRUCTIONS; }

void log_open(void)
{
   log_next = block_log + sizeof block_log / sizeof *block_log;
   clear_log();
}
