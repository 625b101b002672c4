/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Large allocations.
 *
 * The program keeps its own allocator, so its heap lies as it does without us. Allocator functions
 * are recognised by symbol at the start of a superblock, and what they return by a check at the end
 * of every superblock that ends in a return instruction: does the stack pointer now stand where it
 * stood when the running thread's outermost allocator call was made? No preloaded library and no
 * wrapper: this works for static programs and for programs with an allocator of their own, as long
 * as they have symbols, and costs a load and a compare a return.
 *
 * An mmap is an object when the program makes it itself: not inside an allocator call (then the
 * allocator's result is the object), not by the dynamic linker, and not for a stack. An object that
 * loses a part (munmap, or MAP_FIXED over it) is freed, and what remains is allocated anew.
 *
 * Smaller allocations are no objects, and share pages. Of them, one in some 1 KiB is told with its
 * place, and when it goes (small.c). CPython's allocator counts as an allocator for that, so what
 * it maps is no object either. Optimised builds have copies of it inside other functions, which are
 * not seen; what those map is recognised by its size.
 */
#include "recorder.h"

#include "libvex_guest_amd64.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_hashtable.h"
#include "pub_tool_oset.h"
#include "pub_tool_threadstate.h"

/* How a function of the malloc family takes its arguments. */
typedef enum { NONE, MALLOC, CALLOC, REALLOC, MEMALIGN, POSIX_MEMALIGN, VALLOC, FREE } Function;

enum { PYTHON_ARENA = 1 << 20 }; /* of CPython's allocator, from 3.10 on */

/* A thread's outermost allocator call. */
typedef struct {
   Addr sp;         /* the stack pointer after the return; 0: no call */
   Addr return_to;
   Function function;
   ULong bytes;     /* asked for */
   Addr old;        /* realloc: the block that goes */
   Addr result_at;  /* posix_memalign: where the result is put */
   UInt made; /* the place, if it becomes an object or is a sample of the small ones */
} Call;

typedef struct {
   VgHashNode node; /* by address */
   SizeT bytes;     /* fewer than an object's: a small one that is told */
   UInt made; /* the place, 0 if that is not wanted */
} HeapObject;

typedef struct {
   Addr start;      /* the key */
   SizeT bytes;
   UInt made;
} MappedObject;

static ULong min_object;
static ULong live_bytes;    /* of all objects */
static VgHashTable *heap;   /* from the malloc family */
static OSet *mapped;        /* from mmap and mremap: disjoint */
static Call *calls;         /* by thread */
static Bool python_allocates; /* CPython's allocator is there */
static Addr awaited_sp;     /* the running thread's calls[].sp, for instrumented code */

/* ---------------------------------------------------------------- the objects */

static void object_add(Addr start, SizeT bytes, ObjectKind kind, UInt made)
{
   ULong operands[] = {start, bytes, kind};
   record(OP_ALLOC, 3, operands);
   place_of_object(made);
   totals.objects++;
   live_bytes += bytes;
   if (live_bytes > totals.object_peak_bytes)
      totals.object_peak_bytes = live_bytes;
}

static void object_remove(Addr start, SizeT bytes)
{
   ULong operands[] = {start};
   record(OP_FREE, 1, operands);
   live_bytes -= bytes;
}

static void heap_remove(Addr start)
{
   HeapObject *o = VG_(HT_remove)(heap, start);
   if (o) {
      if (o->bytes < min_object)
         small_remove(start);
      else
         object_remove(start, o->bytes);
      VG_(free)(o);
   }
}

static void mapped_add(Addr start, SizeT bytes, ObjectKind kind, UInt made)
{
   if (bytes < min_object)
      return;
   MappedObject *o = VG_(OSetGen_AllocNode)(mapped, sizeof *o);
   *o = (MappedObject){start, bytes, made};
   VG_(OSetGen_Insert)(mapped, o);
   object_add(start, bytes, kind, made);
}

static void mapped_remove(Addr start)
{
   MappedObject *o = VG_(OSetGen_Remove)(mapped, &start);
   if (o) {
      object_remove(start, o->bytes);
      VG_(OSetGen_FreeNode)(mapped, o);
   }
}

static void heap_add(Addr start, SizeT bytes, ObjectKind kind, UInt made)
{
   Bool small = bytes < min_object;
   if (small && made == 0)
      return;
   heap_remove(start);   /* its release was not seen: an address is one object at a time */
   if (!small)
      mapped_remove(start); /* a whole arena given out as one block */
   HeapObject *o = VG_(malloc)("sweephand.object", sizeof *o);
   o->node.key = start;
   o->bytes = bytes;
   o->made = made;
   VG_(HT_add_node)(heap, o);
   if (small)
      small_add(start, bytes, made);
   else
      object_add(start, bytes, kind, made);
}

/* Objects that live already: they are in this recording, too. */
static void object_repeat(Addr start, SizeT bytes, ObjectKind kind, UInt made)
{
   live_bytes -= bytes;
   object_add(start, bytes, kind, made);
}

void objects_restart(void)
{
   const HeapObject *h;
   const MappedObject *m;
   small_restart();
   VG_(HT_ResetIter)(heap);
   while ((h = VG_(HT_Next)(heap)))
      if (h->bytes < min_object)
         small_add(h->node.key, h->bytes, h->made);
      else
         object_repeat(h->node.key, h->bytes, BY_MALLOC, h->made);
   VG_(OSetGen_ResetIter)(mapped);
   while ((m = VG_(OSetGen_Next)(mapped)))
      object_repeat(m->start, m->bytes, BY_MMAP, m->made);
}

/* ---------------------------------------------------------------- mmap */

/* Two ranges compare equal when they overlap, so that a lookup finds any object in a range. */
static Word compare_ranges(const void *key, const void *element)
{
   const MappedObject *a = key, *o = element;
   if (a->start + a->bytes <= o->start)
      return -1;
   return o->start + o->bytes <= a->start;
}

/* Takes pages out of the objects that they belong to. False: they belonged to none. */
Bool object_unmapped(Addr start, SizeT bytes)
{
   MappedObject range = {start, VG_PGROUNDUP(bytes), 0};
   Bool any = False;
   for (const MappedObject *o; (o = VG_(OSetGen_LookupWithCmp)(mapped, &range, compare_ranges));) {
      MappedObject was = *o;
      Addr end = range.start + range.bytes, was_end = was.start + was.bytes;
      any = True;
      mapped_remove(was.start);
      if (was.start < range.start)
         mapped_add(was.start, range.start - was.start, BY_MMAP, was.made);
      if (was_end > end)
         mapped_add(end, was_end - end, BY_MMAP, was.made);
   }
   return any;
}

static Bool called_by_dynamic_linker(ThreadId tid)
{
   const DebugInfo *object = VG_(find_DebugInfo)(VG_(current_DiEpoch)(), VG_(get_IP)(tid));
   const HChar *name = object ? VG_(DebugInfo_get_soname)(object) : NULL;
   return name && VG_(strncmp)(name, "ld-linux", 8) == 0;
}

/* Does CPython call the function that makes this system call? */
static Bool called_by_python(ThreadId tid)
{
   Addr caller = *(Addr *)VG_(get_SP)(tid); /* libc's mmap has nothing of its own on the stack */
   const DebugInfo *object = VG_(find_DebugInfo)(VG_(current_DiEpoch)(), caller);
   const HChar *path = object ? VG_(DebugInfo_get_filename)(object) : NULL;
   const HChar *name = path ? VG_(strrchr)(path, '/') : NULL;
   return name && (VG_(strncmp)(name, "/python", 7) == 0 || VG_(strncmp)(name, "/libpython", 10) == 0);
}

/* ANONYMOUS: of no file, and not shared. */
void object_mapped(ThreadId tid, Addr start, SizeT bytes, ObjectKind kind, Bool anonymous)
{
   const Call *call = &calls[tid];
   Bool of_python = call->sp == 0 && anonymous && bytes == PYTHON_ARENA
                    && (python_allocates || called_by_python(tid));
   if (of_python || (call->sp != 0 && call->bytes < min_object))
      small_arena(start, bytes);
   else if (call->sp == 0 && bytes >= min_object && !called_by_dynamic_linker(tid))
      mapped_add(start, VG_PGROUNDUP(bytes), kind, place_here(tid));
}

/* ---------------------------------------------------------------- allocator calls */

/* Is the thread inside an allocator call, SP being where the stack pointer stands now? A call that
   was left by an exception or a longjmp does not count: its return address is overwritten sooner or
   later, or the stack pointer is above it. */
static Bool inside(const Call *call, Addr sp)
{
   return call->sp != 0 && sp < call->sp && *(Addr *)(call->sp - sizeof(Addr)) == call->return_to;
}

static ULong bytes_asked(Function function, UWord a, UWord b, UWord c)
{
   switch (function) {
   case CALLOC:
      return a * b;
   case REALLOC:
   case MEMALIGN:
      return b;
   case POSIX_MEMALIGN:
      return c;
   default:
      return a;
   }
}

/* The stack pointer stands at the return address; A, B, C are the function's arguments. */
static void allocator_entered(Function function, UWord a, UWord b, UWord c, Addr sp)
{
   Call *call = &calls[VG_(get_running_tid)()];
   Addr after = sp + sizeof(Addr);
   if (function == FREE) {
      heap_remove(a);
      return;
   }
   if (inside(call, after))
      return; /* an allocator function that another one calls */
   *call = (Call){.sp = after, .return_to = *(Addr *)sp, .function = function,
                  .bytes = bytes_asked(function, a, b, c), .old = a, .result_at = a};
   if (call->bytes >= min_object || small_is_told(call->bytes))
      call->made = place_here(VG_(get_running_tid)());
   awaited_sp = after;
}

static void allocator_returned(Addr result, Addr next)
{
   Call *slot = &calls[VG_(get_running_tid)()], call = *slot;
   *slot = (Call){0};
   awaited_sp = 0;
   if (call.return_to != next)
      return; /* some other return, after the call was left by a longjmp */
   if (call.function == POSIX_MEMALIGN)
      result = result == 0 ? *(Addr *)call.result_at : 0;
   if (call.function == REALLOC && call.old != 0 && (result != 0 || call.bytes == 0))
      heap_remove(call.old);
   if (result == 0)
      return;
   switch (call.function) {
   case CALLOC:
      heap_add(result, call.bytes, BY_CALLOC, call.made);
      break;
   case REALLOC:
      heap_add(result, call.bytes, BY_REALLOC, call.made);
      break;
   case MEMALIGN:
   case POSIX_MEMALIGN:
   case VALLOC:
      heap_add(result, call.bytes, BY_MEMALIGN, call.made);
      break;
   default:
      heap_add(result, call.bytes, BY_MALLOC, call.made);
      break;
   }
}

/* ---------------------------------------------------------------- recognising them */

/* Names as Valgrind gives them: demangled, and of several names of one address any one. Those with
   a parameter list are prefixes; placement new and delete are not among them. */
static const struct { const HChar *name; Function function; } names[] = {
   {"malloc", MALLOC}, {"__libc_malloc", MALLOC}, {"__GI___libc_malloc", MALLOC},
   {"calloc", CALLOC}, {"__libc_calloc", CALLOC},
   {"realloc", REALLOC}, {"__libc_realloc", REALLOC}, {"__GI___libc_realloc", REALLOC},
   {"memalign", MEMALIGN}, {"__libc_memalign", MEMALIGN}, {"__GI___libc_memalign", MEMALIGN},
   {"aligned_alloc", MEMALIGN},
   {"posix_memalign", POSIX_MEMALIGN}, {"__posix_memalign", POSIX_MEMALIGN},
   {"valloc", VALLOC}, {"__libc_valloc", VALLOC}, {"pvalloc", VALLOC}, {"__libc_pvalloc", VALLOC},
   {"free", FREE}, {"cfree", FREE}, {"__libc_free", FREE}, {"__GI___libc_free", FREE},
   {"operator new(unsigned long)", MALLOC}, {"operator new[](unsigned long)", MALLOC},
   {"operator new(unsigned long, std::nothrow_t", MALLOC},
   {"operator new[](unsigned long, std::nothrow_t", MALLOC},
   {"operator new(unsigned long, std::align_val_t", MALLOC},
   {"operator new[](unsigned long, std::align_val_t", MALLOC},
   {"operator delete(void*)", FREE}, {"operator delete[](void*)", FREE},
   {"operator delete(void*, unsigned long", FREE}, {"operator delete[](void*, unsigned long", FREE},
   {"operator delete(void*, std::", FREE}, {"operator delete[](void*, std::", FREE},
   {"PyObject_Malloc", MALLOC}, {"PyObject_Calloc", CALLOC}, {"PyObject_Realloc", REALLOC},
   {"PyObject_Free", FREE}, {"PyMem_Malloc", MALLOC}, {"PyMem_Calloc", CALLOC},
   {"PyMem_Realloc", REALLOC}, {"PyMem_Free", FREE},
};

static Function function_at(Addr entry)
{
   const HChar *name;
   if (!VG_(get_fnname_if_entry)(VG_(current_DiEpoch)(), entry, &name))
      return NONE;
   for (UInt i = 0; i < sizeof names / sizeof *names; i++) {
      const HChar *known = names[i].name;
      Bool prefix = VG_(strchr)(known, '(') != NULL;
      if (prefix ? VG_(strncmp)(name, known, VG_(strlen)(known)) == 0 : VG_(strcmp)(name, known) == 0) {
         python_allocates |= name[0] == 'P';
         return names[i].function;
      }
   }
   return NONE;
}

static IRExpr *get(IRSB *out, Int offset)
{
   IRTemp t = newIRTemp(out->tyenv, Ity_I64);
   addStmtToIRSB(out, IRStmt_WrTmp(t, IRExpr_Get(offset, Ity_I64)));
   return IRExpr_RdTmp(t);
}

void objects_instrument_entry(IRSB *out, Addr entry)
{
   Function function = function_at(entry);
   if (function == NONE)
      return;
   IRExpr **args = mkIRExprVec_5(mkIRExpr_HWord(function),
                                 get(out, offsetof(VexGuestAMD64State, guest_RDI)),
                                 get(out, offsetof(VexGuestAMD64State, guest_RSI)),
                                 get(out, offsetof(VexGuestAMD64State, guest_RDX)),
                                 get(out, offsetof(VexGuestAMD64State, guest_RSP)));
   addStmtToIRSB(out, IRStmt_Dirty(unsafeIRDirty_0_N(0, "allocator_entered",
                                                     VG_(fnptr_to_fnentry)(&allocator_entered), args)));
}

void objects_instrument_return(IRSB *out, IRExpr *target)
{
   IRTemp awaited = newIRTemp(out->tyenv, Ity_I64), here = newIRTemp(out->tyenv, Ity_I1);
   IRExpr *sp = get(out, offsetof(VexGuestAMD64State, guest_RSP));
   IRExpr *result = get(out, offsetof(VexGuestAMD64State, guest_RAX));
   addStmtToIRSB(out, IRStmt_WrTmp(awaited, IRExpr_Load(Iend_LE, Ity_I64,
                                                        mkIRExpr_HWord((HWord)&awaited_sp))));
   addStmtToIRSB(out, IRStmt_WrTmp(here, IRExpr_Binop(Iop_CmpEQ64, sp, IRExpr_RdTmp(awaited))));
   IRDirty *call = unsafeIRDirty_0_N(0, "allocator_returned",
                                     VG_(fnptr_to_fnentry)(&allocator_returned),
                                     mkIRExprVec_2(result, target));
   call->guard = IRExpr_RdTmp(here);
   addStmtToIRSB(out, IRStmt_Dirty(call));
}

/* ---------------------------------------------------------------- threads */

static void thread_runs(ThreadId tid, ULong blocks)
{
   awaited_sp = calls[tid].sp;
   log_switch(tid);
}

static void thread_ends(ThreadId tid)
{
   calls[tid] = (Call){0};
   log_leave(tid);
}

void objects_open(ULong min_object_bytes)
{
   min_object = min_object_bytes;
   heap = VG_(HT_construct)("sweephand.heap");
   mapped = VG_(OSetGen_Create)(offsetof(MappedObject, start), NULL, VG_(malloc), "sweephand.mapped",
                                VG_(free));
   calls = VG_(calloc)("sweephand.calls", VG_N_THREADS, sizeof *calls);
   VG_(track_start_client_code)(thread_runs);
   VG_(track_pre_thread_ll_exit)(thread_ends);
}
