/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Places in the program: where objects are made, and which code touches pages. A place is a call
 * path (contexts.c). The first time that one is asked for in a stream, it goes there as text, after
 * its callers. After that its number is enough.
 *
 * Neither costs much. A place of an object is looked up for objects that are recorded, that of code
 * only when a page is new to the window's epoch. Most of the rest is the calls and returns that
 * calls.c follows.
 */
#include "recorder.h"

static Bool of_objects, of_code;
static ULong *numbers; /* by context: 1 + that of its place in the stream */
static UInt n_numbers;
static ULong sent;
static UInt told; /* the place of the last CODE */

void places_open(Bool objects, Bool code)
{
   of_objects = objects;
   of_code = code;
   contexts_open();
   sites_open();
   calls_open();
}

void places_restart(void)
{
   VG_(free)(numbers);
   numbers = NULL;
   n_numbers = 0;
   sent = 0;
   told = 0;
}

void places_end(void)
{
   if (contexts_lost() || sites_lost() || python_lost())
      stream_note("the program has more call paths than a recording keeps: all faults have a place, "
                  "but for some its callers are missing, and for some it is the line that called the "
                  "code");
}

Bool places_wanted(void) { return of_objects || of_code; }

ULong place_number(UInt place)
{
   if (place >= n_numbers) {
      UInt most = 2 * (place + 512);
      numbers = VG_(realloc)("sweephand.places", numbers, most * sizeof *numbers);
      VG_(memset)(numbers + n_numbers, 0, (most - n_numbers) * sizeof *numbers);
      n_numbers = most;
   }
   /* The callers first, the outermost of all at the start. */
   UInt path[MAX_DEPTH + 1], n = 0;
   for (UInt c = place; c != 0 && numbers[c] == 0; c = context(c)->caller)
      path[n++] = c;
   while (n-- > 0) {
      const Context *c = context(path[n]);
      const HChar *text = c->kind == PYTHON ? python_text(c->code) : site_text(c->code);
      stream_place(c->caller ? numbers[c->caller] : 0, VG_(strlen)(text), text);
      numbers[path[n]] = ++sent;
   }
   return numbers[place] - 1;
}

/* Where the thread is: at the entry of an allocator, or in a system call. */
UInt place_here(ThreadId tid)
{
   if (!of_objects)
      return 0;
   log_switch(tid);
   replay();
   python_changed();
   Addr code = VG_(get_IP)(tid);
   UInt here = calls_here();
   return here != 0 ? here : context_inside(0, NATIVE, site_of(code, False));
}

/* Follows the ALLOC of an object that was made at PLACE. */
void place_of_object(UInt place)
{
   if (place == 0)
      return;
   ULong number = place_number(place);
   stream_control(OP_MADE, 1, &number);
}

/* The code at CODE, which the log tells of now. Of what Python code has called, the function and
   not the line is kept: a line would be of the interpreter or of a library, and there are many. */
UInt place_of_code(Addr code)
{
   if (!of_code)
      return 0;
   UInt here = calls_here();
   if (!calls_in_python())
      return context_inside(here, NATIVE, site_of(code, False));
   return python_is_loop(code) ? here : context_inside(here, NATIVE, site_of(code, True));
}

/* The references from here on are those of the code at PLACE. */
void place_of_references(UInt place)
{
   if (place == told || place == 0)
      return;
   ULong number = place_number(place);
   told = place;
   stream_control(OP_CODE, 1, &number);
}
