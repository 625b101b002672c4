/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tool itself: options, the life of a recording, and its registration with Valgrind.
 *
 * A recording begins with the program's first mapping and ends with its END record: when the
 * program exits, or when a signal that it does not handle ends it (so Ctrl-C leaves a whole trace).
 * Three things cut it short, and the reader of the stream has to accept all three as a trace
 * without END: SIGKILL, an exec, and a crash of Valgrind's.
 *
 * What follows an exec is another program, with a stream of its own, and so is a forked child, if
 * it is recorded (follow.c). With --out-fd there is one stream, and neither is: the program behind
 * an exec runs without Valgrind. A child that is not recorded has no hold on the stream, so the
 * reader sees its end when the recorded program itself is gone.
 */
#include "recorder.h"

#include "pub_tool_xarray.h"
#include "pub_tool_clientstate.h"
#include "pub_tool_options.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "pub_tool_xarray.h"

/* Options of Valgrind's core that its tool headers do not declare. */
extern Bool VG_(clo_read_inline_info);
extern XArray *VG_(clo_fullpath_after);

enum {
   DEFAULT_WINDOW = 16,
   DEFAULT_MIN_OBJECT_BYTES = 40 * 1024,
};

static Int clo_out_fd = -1;
static Int clo_control_fd = -1;
static Bool clo_children;
static Bool clo_stacks = True;
static Bool clo_code = True;
static Bool clo_anonymous;
static Int clo_window = DEFAULT_WINDOW;
static Long clo_min_object = DEFAULT_MIN_OBJECT_BYTES;

/* ---------------------------------------------------------------- the life of a recording */

/* Everything up to now, on its way to the reader. */
static void bring_up_to_date(void)
{
   replay();
   mark();
   stream_flush();
}

static void end(void)
{
   replay();
   mark();
   places_end();
   ULong operands[] = {totals.instructions, totals.references, totals.runs, totals.records,
                       totals.objects, totals.object_peak_bytes, totals.syscall_pages};
   stream_control(OP_END, 7, operands);
   stream_flush();
   stream_forget();
   recording = False;
}

/* ---------------------------------------------------------------- other programs */

static void before_fork(ThreadId tid)
{
   if (recording)
      bring_up_to_date();
}

static void open_stream(const HChar *how)
{
   Int fd = clo_control_fd >= 0 ? follow_begin(how, VG_(args_the_exename)) : clo_out_fd;
   stream_open(fd, clo_window, VG_(args_the_exename));
}

static void in_forked_child(ThreadId tid)
{
   stream_forget();
   if (!follow_forked())
      recording = False;
   if (!recording)
      return;
   marks_restart();
   open_stream("fork");
   log_restart();
   places_restart();
   objects_restart();
}

static Bool is_exec(UInt number) { return number == __NR_execve || number == __NR_execveat; }

static void before_syscall(ThreadId tid, UInt number, UWord *args, UInt n)
{
   if (!recording)
      return;
   if (is_exec(number)) {
      bring_up_to_date(); /* if it succeeds, nothing of us is left to do it */
      follow_before_exec(number, args);
   }
   flush_now_and_then(); /* the call may wait for long */
   syscall_entered(tid, number, args, n);
}

static void after_syscall(ThreadId tid, UInt number, UWord *args, UInt n, SysRes result)
{
   if (recording && is_exec(number))
      follow_after_exec();
   if (recording)
      syscall_returned(tid, number, args, n, result);
}

/* ---------------------------------------------------------------- the tool */

static Bool process_option(const HChar *arg)
{
   if VG_INT_CLO(arg, "--out-fd", clo_out_fd) {}
   else if VG_INT_CLO(arg, "--control-fd", clo_control_fd) {}
   else if VG_BOOL_CLO(arg, "--children", clo_children) {}
   else if VG_BOOL_CLO(arg, "--stacks", clo_stacks) {}
   else if VG_BOOL_CLO(arg, "--code", clo_code) {}
   else if VG_BOOL_CLO(arg, "--anonymous", clo_anonymous) {}
   else if VG_BINT_CLO(arg, "--window", clo_window, 0, MAX_WINDOW) {}
   else if VG_BINT_CLO(arg, "--min-object", clo_min_object, 1, 1LL << 62) {}
   else
      return False;
   return True;
}

static void print_usage(void)
{
   VG_(printf)(
"    --out-fd=<number>         inherited file descriptor for the PGTR stream of this program alone\n"
"    --control-fd=<number>     or an inherited socket, over which streams come: through every exec\n"
"    --children=no|yes         with --control-fd: record children as well [no]\n"
"    --stacks=no|yes           record where in the program objects are made [yes]\n"
"    --code=no|yes             record which code touches pages [yes]\n"
"    --anonymous=no|yes        record anonymous memory only [no]\n"
"    --window=<pages>          exact for LRU and OPT from this many frames up; 1 keeps every run,\n"
"                              0 every reference [%d]\n"
"    --min-object=<bytes>      record allocations from this size on [%d]\n",
      DEFAULT_WINDOW, DEFAULT_MIN_OBJECT_BYTES);
}

static void print_debug_usage(void) { VG_(printf)("    (none)\n"); }

static const WindowHooks window_hooks = {note_unexamined, place_of_code, place_of_references};

static void open_recording(void)
{
   if ((clo_out_fd < 0) == (clo_control_fd < 0)) {
      VG_(fmsg)("sweephand: --out-fd=<number> or --control-fd=<number> is required\n");
      VG_(exit)(1);
   }
   /* Allocators are recognised at the start of a superblock: a jump to one must begin a new one. */
   VG_(clo_vex_control).guest_chase = False;
   if (clo_control_fd >= 0)
      follow_open(clo_control_fd, clo_children);
   places_open(clo_stacks, clo_code);
   open_stream("exec");
   window_open(clo_window, clo_anonymous, window_hooks);
   log_open();
   instrument_open();
   memory_open();
   /* Source files with their directories, whatever those are. */
   const HChar *any = "";
   VG_(addToXA)(VG_(clo_fullpath_after), &any);
   objects_open(clo_min_object);
}

static void close_recording(Int exit_code)
{
   if (recording)
      end();
}

static void initialise(void)
{
   VG_(clo_read_inline_info) = True; /* stacks name inlined functions, too */
   VG_(details_name)("Sweephand");
   VG_(details_version)(NULL);
   VG_(details_description)("a recorder of page references");
   VG_(details_copyright_author)("Distributed under the GNU GPL, version 2 or later.");
   VG_(details_bug_reports_to)("the Sweephand project");
   VG_(details_avg_translation_sizeB)(500);
   /* A program that handles its own faults (a collector's write barrier, a pager) needs all of its
      registers at each access, not only those that Valgrind needs to unwind the stack. */
   VG_(clo_vex_control).iropt_register_updates_default = VexRegUpdAllregsAtMemAccess;
   VG_(clo_px_file_backed) = VexRegUpdAllregsAtMemAccess;

   VG_(basic_tool_funcs)(open_recording, instrument, close_recording);
   VG_(needs_command_line_options)(process_option, print_usage, print_debug_usage);
   VG_(needs_superblock_discards)(instrument_discard);
   VG_(needs_syscall_wrapper)(before_syscall, after_syscall);
   VG_(atfork)(before_fork, NULL, in_forked_child);
}

VG_DETERMINE_INTERFACE_VERSION(initialise)
