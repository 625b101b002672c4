/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The address space, and the pages that the kernel touches on the program's behalf.
 *
 * Mappings: MAP when one appears (for information), UNMAP when contents are gone: munmap, a
 * shrinking brk, a MAP_FIXED mapping put over another, madvise with DONTNEED, FREE or REMOVE. REMAP
 * when mremap moves pages with their contents.
 *
 * System calls: Valgrind announces the buffers that a call reads before the call, and those that it
 * has written after it. What a call was offered is not what it took: a program that drains 1 GiB
 * into a pipe by short writes offers the whole rest each time. So what output calls read is
 * remembered, and counted when their result is known. The frame of a signal handler, which the
 * kernel writes, counts as well. Pages that the program may not access are left out: the call
 * failed there.
 */
#include "recorder.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

enum {
   MAX_OFFERED = 64, /* of a vector's buffers only the first that many are followed */
   /* Linux's numbers that Valgrind's headers lack. */
   ADVICE_DONTNEED = 4,
   ADVICE_FREE = 8,
   ADVICE_REMOVE = 9,
   MAP_IS_STACK = 0x20000,
};

/* What a thread's output call has been offered to read. */
typedef struct {
   UInt n;
   struct { Addr start; SizeT bytes; } ranges[MAX_OFFERED];
} Offer;

static Offer **offers;        /* by thread; NULL until it makes its first output call */
static Bool *in_output_call;  /* by thread */
static Bool replacing;        /* the mapping call under way replaces what was there (MAP_FIXED) */
static Addr moved_from;       /* mremap: the pages whose contents went elsewhere, */
static SizeT moved_bytes;     /* until their old place is reported gone */

/* ---------------------------------------------------------------- mappings */

static void record_pages(Op op, UWord first, UWord end)
{
   ULong operands[] = {first, end - first};
   if (end > first)
      record(op, 2, operands);
}

/* Pages that lie in the range at least in part. */
static void map_range(Addr start, SizeT bytes)
{
   record_pages(OP_MAP, page_of(start), page_of(start + bytes + PAGE_BYTES - 1));
}

/* Pages of whose contents nothing is left: the last page of a range ends with it. */
static void unmap_range(Addr start, SizeT bytes)
{
   python_forget_memory(); /* its frames may have been there */
   record_pages(OP_UNMAP, page_of(start + PAGE_BYTES - 1), page_of(start + bytes + PAGE_BYTES - 1));
}

static void new_startup(Addr a, SizeT bytes, Bool r, Bool w, Bool x, ULong debug_info)
{
   map_range(a, bytes);
}

static void new_mmap(Addr a, SizeT bytes, Bool r, Bool w, Bool x, ULong debug_info)
{
   if (replacing)
      unmap_range(a, bytes);
   map_range(a, bytes);
}

static void new_brk(Addr a, SizeT bytes, ThreadId tid)
{
   map_range(a, bytes);
   small_arena(a, bytes);
}

static void die_brk(Addr a, SizeT bytes) { unmap_range(a, bytes); }

static void die_munmap(Addr a, SizeT bytes)
{
   SizeT moved = a == moved_from ? moved_bytes : 0;
   moved_bytes = 0;
   if (moved < bytes)
      unmap_range(a + moved, bytes - moved);
}

static void remap(Addr from, Addr to, SizeT bytes)
{
   ULong operands[] = {page_of(from), page_of(to), page_of(bytes + PAGE_BYTES - 1)};
   python_forget_memory();
   if (replacing)
      unmap_range(to, bytes);
   record(OP_REMAP, 3, operands);
   moved_from = from;
   moved_bytes = bytes;
}

/* ---------------------------------------------------------------- touches */

/* The part of a range that the program may access in such a way, from its start. */
static SizeT accessible(Addr start, SizeT bytes, UInt protection)
{
   SizeT good = 0;
   while (good < bytes) {
      const NSegment *segment = VG_(am_find_nsegment)(start + good);
      SizeT rest;
      if (!segment || !VG_(am_is_valid_for_client)(start + good, 1, protection))
         break;
      rest = segment->end - (start + good) + 1;
      good += rest < bytes - good ? rest : bytes - good;
   }
   return good;
}

static void touch_range(ThreadId tid, Addr start, SizeT bytes, Bool write)
{
   bytes = accessible(start, bytes, write ? VKI_PROT_WRITE : VKI_PROT_READ);
   if (!recording || bytes == 0)
      return;
   log_switch(tid); /* a call that waited returns before the thread runs again */
   replay();
   for (UWord page = page_of(start); page <= page_of(start + bytes - 1); page++) {
      window_touch(page, write, VG_(get_IP)(tid));
      totals.syscall_pages++;
   }
}

static void offer(ThreadId tid, Addr start, SizeT bytes)
{
   Offer *o = offers[tid];
   if (o->n < MAX_OFFERED) {
      o->ranges[o->n].start = start;
      o->ranges[o->n].bytes = bytes;
      o->n++;
   }
}

static void before_read(CorePart part, ThreadId tid, const HChar *what, Addr start, SizeT bytes)
{
   if (part != Vg_CoreSysCall)
      return;
   if (in_output_call[tid])
      offer(tid, start, bytes);
   else
      touch_range(tid, start, bytes, False);
}

static void before_read_string(CorePart part, ThreadId tid, const HChar *what, Addr start)
{
   SizeT room = PAGE_BYTES - (start & (PAGE_BYTES - 1)), bytes = 0;
   if (part != Vg_CoreSysCall)
      return;
   while (accessible(start + bytes, room, VKI_PROT_READ) == room) {
      SizeT n = VG_(strnlen)((const HChar *)(start + bytes), room);
      bytes += n;
      if (n < room) {
         touch_range(tid, start, bytes + 1, False);
         return;
      }
      room = PAGE_BYTES;
   }
}

static void after_write(CorePart part, ThreadId tid, Addr start, SizeT bytes)
{
   if (part == Vg_CoreSysCall || part == Vg_CoreSignal)
      touch_range(tid, start, bytes, True);
}

/* ---------------------------------------------------------------- system calls */

/* Calls whose result says how many bytes of their buffers they have read. */
static Bool is_output_call(UInt number)
{
   switch (number) {
   case __NR_write: case __NR_pwrite64: case __NR_writev: case __NR_pwritev: case __NR_pwritev2:
   case __NR_sendto: case __NR_sendmsg: case __NR_vmsplice: case __NR_process_vm_writev:
      return True;
   default:
      return False;
   }
}

void syscall_entered(ThreadId tid, UInt number, UWord *args, UInt n)
{
   in_output_call[tid] = is_output_call(number);
   if (in_output_call[tid]) {
      if (!offers[tid])
         offers[tid] = VG_(malloc)("sweephand.offer", sizeof(Offer));
      offers[tid]->n = 0;
   }
   replacing = (number == __NR_mmap && (args[3] & VKI_MAP_FIXED))
               || (number == __NR_mremap && (args[3] & VKI_MREMAP_FIXED));
}

static void take_offer(ThreadId tid, SizeT bytes)
{
   for (UInt i = 0; i < offers[tid]->n; i++) {
      SizeT offered = offers[tid]->ranges[i].bytes;
      touch_range(tid, offers[tid]->ranges[i].start, offered < bytes ? offered : bytes, False);
   }
}

static void advised(Addr start, SizeT bytes, UWord advice)
{
   if (advice == ADVICE_DONTNEED || advice == ADVICE_FREE || advice == ADVICE_REMOVE)
      unmap_range(start, bytes);
}

void syscall_returned(ThreadId tid, UInt number, UWord *args, UInt n, SysRes result)
{
   replacing = False;
   if (in_output_call[tid] && !sr_isError(result))
      take_offer(tid, sr_Res(result));
   in_output_call[tid] = False;
   if (sr_isError(result))
      return;
   python_forget_memory();
   switch (number) {
   case __NR_madvise:
      advised(args[0], args[1], args[2]);
      break;
   case __NR_munmap:
      object_unmapped(args[0], args[1]);
      break;
   case __NR_mmap:
      if (args[3] & VKI_MAP_FIXED)
         object_unmapped(args[0], args[1]);
      if (!(args[3] & MAP_IS_STACK)) /* a thread's stack is no object */
         object_mapped(tid, sr_Res(result), args[1], BY_MMAP,
                       (args[3] & VKI_MAP_ANONYMOUS) && (args[3] & VKI_MAP_PRIVATE));
      break;
   case __NR_mremap:
      if (object_unmapped(args[0], args[1]))
         object_mapped(tid, sr_Res(result), args[2], BY_MREMAP, False);
      break;
   default:
      break;
   }
}

void memory_open(void)
{
   offers = VG_(calloc)("sweephand.offers", VG_N_THREADS, sizeof *offers);
   in_output_call = VG_(calloc)("sweephand.offers", VG_N_THREADS, sizeof *in_output_call);
   VG_(track_new_mem_startup)(new_startup);
   VG_(track_new_mem_mmap)(new_mmap);
   VG_(track_new_mem_brk)(new_brk);
   VG_(track_die_mem_brk)(die_brk);
   VG_(track_die_mem_munmap)(die_munmap);
   VG_(track_copy_mem_remap)(remap);
   VG_(track_pre_mem_read)(before_read);
   VG_(track_pre_mem_read_asciiz)(before_read_string);
   VG_(track_post_mem_write)(after_write);
}
