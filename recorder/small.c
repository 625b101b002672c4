/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Small allocations: too many to tell each of them, and several share a page. So there are arenas,
 * the memory that an allocator took to have them in, and a sample of the allocations. Who reads the
 * stream makes of them which line of the program has most of each page.
 *
 * A sample is taken for each STEP bytes that are allocated, on average; at random, so that a
 * program with a period is told as it is. An allocation larger than twice that is always told. So
 * that there is an end to memory, the step doubles each time that MOST samples live.
 *
 * Nothing here ends an epoch of the window: the references of a trace are the same without it.
 */
#include "recorder.h"

enum { STEP = 1024, MOST = 1 << 20, MOST_ARENAS = 1 << 16 };

static SizeT step = STEP;
static Long ahead = STEP; /* bytes until the next sample */
static UInt live;
static ULong random_state = 0x9E3779B97F4A7C15ULL;

static struct { UWord first, end; } *arenas; /* pages */
static UInt n_arenas;

static ULong random_number(void)
{
   random_state ^= random_state << 13;
   random_state ^= random_state >> 7;
   random_state ^= random_state << 17;
   return random_state;
}

Bool small_is_told(SizeT bytes)
{
   ahead -= (Long)bytes;
   if (LIKELY_(ahead > 0))
      return False;
   ahead = 1 + (Long)(random_number() % (2 * step));
   return True;
}

void small_add(Addr start, SizeT bytes, UInt made)
{
   if (!recording)
      return;
   ULong operands[] = {start, bytes, place_number(made)};
   stream_control(OP_SMALL, 3, operands);
   if (++live == MOST) {
      live = 0;
      step *= 2;
   }
}

void small_remove(Addr start)
{
   ULong operand = start;
   live -= live > 0;
   if (recording)
      stream_control(OP_GONE, 1, &operand);
}

static void tell_arena(UWord first, UWord end)
{
   ULong operands[] = {first, end - first};
   if (recording && end > first)
      stream_control(OP_ARENA, 2, operands);
}

void small_arena(Addr start, SizeT bytes)
{
   UWord first = page_of(start), end = page_of(start + bytes + PAGE_BYTES - 1);
   if (!places_wanted())
      return;
   tell_arena(first, end);
   if (n_arenas > 0 && arenas[n_arenas - 1].end == first) {
      arenas[n_arenas - 1].end = end; /* a heap that grows */
      return;
   }
   if (n_arenas == MOST_ARENAS)
      return;
   if (!arenas)
      arenas = VG_(malloc)("sweephand.arenas", MOST_ARENAS * sizeof *arenas);
   arenas[n_arenas].first = first;
   arenas[n_arenas++].end = end;
}

void small_restart(void)
{
   live = 0;
   for (UInt i = 0; i < n_arenas; i++)
      tell_arena(arenas[i].first, arenas[i].end);
}
