/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sweephand's recorder: a Valgrind tool that writes down which pages a program touches.
 *
 * What: every data load and store of the program, and every page its system calls read or write,
 * becomes a page number; consecutive references to one page collapse into a run; runs pass through
 * the window (window.c; with --window=0 there is none, and every reference counts) and leave as
 * records of the PGTR version 1 stream (stream.c), mixed with what else a pager wants to know:
 * mappings that come and go (memory.c), large objects (objects.c), and how many instructions have
 * passed.
 *
 * How: instrumented code does as little as it can. It appends the addresses that it used to a log,
 * one store each, and at the head of each superblock's entry the descriptor that says what those
 * addresses were (instrument.c). When the log is full, replay() walks it in one tight loop (log.c).
 * Whatever must be in order with the references (a system call, a munmap, a free) replays the log
 * first.
 *
 *     instrumented code -> log -> replay() -> window -> stream -> pipe
 *          system calls, signals --------------^         ^
 *          mappings, objects, instruction marks ---------+
 *
 * Cost: see lab/bench/recorder.
 */
#ifndef RECORDER_H
#define RECORDER_H

#include "pub_tool_basics.h"
#include "pub_tool_execontext.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_tooliface.h"

#define LIKELY_(x) __builtin_expect(!!(x), 1)
#define UNLIKELY_(x) __builtin_expect(!!(x), 0)

enum { PAGE_SHIFT = 12, PAGE_BYTES = 1 << PAGE_SHIFT, MAX_WINDOW = 256 };

#define NO_PAGE (~(UWord)0) /* beyond any address: no page has this number */

static inline UWord page_of(Addr a) { return a >> PAGE_SHIFT; }

/* totals.c: what END reports. Each counter is changed in one place, named here. */
typedef struct {
   ULong instructions;      /* log.c, replay() */
   ULong references;        /* log.c, replay() */
   ULong runs;              /* window.c, window_touch(): the K = 1 count of records */
   ULong records;           /* stream.c, stream_reference() */
   ULong objects;           /* objects.c, object_add() */
   ULong object_peak_bytes; /* objects.c, object_add() */
   ULong syscall_pages;     /* memory.c, touch_range() */
} Totals;
extern Totals totals;

/* False in a forked child that is not recorded, and once the trace is finished. */
extern Bool recording;

/* stream.c: the PGTR encoder and its output buffer. */
typedef enum {
   OP_END, OP_ALLOC, OP_FREE, OP_MARK, OP_MAP, OP_UNMAP, OP_REMAP, OP_PLACE, OP_MADE, OP_CODE, OP_NOTE,
   OP_ARENA, OP_SMALL, OP_GONE
} Op;
typedef enum { BY_MALLOC, BY_CALLOC, BY_REALLOC, BY_MEMALIGN, BY_MMAP, BY_MREMAP } ObjectKind;
void stream_open(Int fd, UInt window, const HChar *program);
void stream_reference(UWord page, UInt write);
void stream_control(Op op, UInt n, const ULong *operands);
void stream_place(ULong caller, UInt bytes, const HChar *text); /* at most 16 KiB */
void stream_note(const HChar *text);
void stream_flush(void);
void stream_forget(void); /* close without writing: for a forked child */

/* window.c: runs of references to one page, and which of them are kept. */
/* What the window asks of files that use it. */
typedef struct {
   void (*before_close)(void);      /* called before an epoch is written */
   UInt (*place_at)(Addr code);     /* the place of the code that makes a reference */
   void (*tell_place)(UInt place);  /* called before references that its code makes */
} WindowHooks;
/* ANONYMOUS: no records of other memory. */
void window_open(UInt pages, Bool anonymous, WindowHooks hooks);
Bool window_is_open(void); /* False: every reference is a record, window_touch() takes it */
void window_touch(UWord page, UInt write, Addr code);
void window_close_epoch(void);

/* instrument.c: makes the code that fills the log. */
IRSB *instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout,
                 const VexGuestExtents *extents, const VexArchInfo *host, IRType guest_word,
                 IRType host_word);
void instrument_open(void);
void instrument_discard(Addr start, VexGuestExtents extents);

/* log.c */
void log_open(void);
void replay(void);          /* takes what the log holds through the window */
void note_unexamined(void); /* brings the times in the window's table up to date */
void record(Op op, UInt n, const ULong *operands); /* a control record, after all before it */
void log_switch(ThreadId tid); /* the log is this thread's from now on */
void log_leave(ThreadId tid);  /* the thread ends */

/* marks.c */
void mark(void);
void flush_now_and_then(void);

/* Everything counts from 0 again: a forked child's recording begins. */
void log_restart(void);
void marks_restart(void);
void objects_restart(void); /* and the objects that live are in it */

/* follow.c: through exec and fork. */
void follow_open(Int control_fd, Bool children);
Int follow_begin(const HChar *how, const HChar *program); /* where its stream goes */
void follow_before_exec(UInt number, const UWord *args);
void follow_after_exec(void);
Bool follow_forked(void);

/* widen.c: makes the program's own code faster than Valgrind alone does. */
void widen_begin(void);
IRStmt *widen(IRSB *out, IRStmt *s);

/* memory.c */
void memory_open(void);
void syscall_entered(ThreadId tid, UInt number, UWord *args, UInt n);
void syscall_returned(ThreadId tid, UInt number, UWord *args, UInt n, SysRes result);

/* calls.c: the functions that a thread is in, as the log tells. Only log.c changes the thread, once
   it has replayed the log of the one before. */
void calls_open(void);
ThreadId calls_thread(void); /* whose calls these are */
void calls_switch(ThreadId tid);
void calls_end(ThreadId tid);
UInt calls_here(void);      /* the context of the code that runs now */
Bool calls_in_python(void); /* the last answer was Python code */

/* sites.c: lines and functions of the program's code. */
void sites_open(void);
UInt site_of(Addr ip, Bool function); /* 0: there are too many */
const HChar *site_text(UInt site);
Bool sites_lost(void);      /* there were too many */
Bool site_is_below_main(UInt site);

/* contexts.c: call paths, each once. 0 is the empty one. */
enum { NATIVE, PYTHON };
enum { MAX_DEPTH = 200 };
typedef struct {
   UInt caller;
   UShort kind;
   UChar depth;
   Bool python; /* it or a caller is Python code */
   UInt code;   /* a site, or a line of Python code */
} Context;
void contexts_open(void);
UInt context_inside(UInt caller, UInt kind, UInt code);
const Context *context(UInt n);
Bool contexts_lost(void); /* there was no room for a path, or for its callers */

/* places.c: where in the program objects are made, and which code touches pages. */
void places_open(Bool stacks, Bool code);
void places_restart(void);
void places_end(void); /* says in the stream if some are missing */
UInt place_here(ThreadId tid); /* a place, for the functions below; 0: not wanted */
UInt place_of_code(Addr code); /* the same, of this code */
void place_of_object(UInt place);
void place_of_references(UInt place);
ULong place_number(UInt place); /* in the stream, where it is from then on */
Bool places_wanted(void);

/* python.c: the frames of CPython. */
Bool python_is_loop(Addr code); /* the loop of the interpreter */
Bool python_runs(void);
UInt python_here(ThreadId tid); /* the context of the Python code that runs now; 0: none does */
void python_changed(void);  /* it may be other code from now on */
void python_forget_memory(void);
const HChar *python_text(UInt line);
Bool python_lost(void);     /* there were too many lines */

/* objects.c */
void objects_open(ULong min_object_bytes);
void objects_instrument_entry(IRSB *out, Addr entry);
void objects_instrument_return(IRSB *out, IRExpr *target);
void object_mapped(ThreadId tid, Addr start, SizeT bytes, ObjectKind kind, Bool anonymous);
Bool object_unmapped(Addr start, SizeT bytes);

/* small.c: allocations that are no objects. */
Bool small_is_told(SizeT bytes); /* asked for each of them, once */
void small_add(Addr start, SizeT bytes, UInt made);
void small_remove(Addr start);
void small_arena(Addr start, SizeT bytes); /* where an allocator keeps them */
void small_restart(void);        /* the arenas that are known are in the recording that begins */

#endif
