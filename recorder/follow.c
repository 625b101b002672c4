/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which processes and programs are recorded: the one that was started, through every exec, and its
 * children if they are asked for.
 *
 * An exec replaces the tool along with the program. Valgrind starts the tool again for the new
 * program, with the same options (--trace-children=yes, which the tool switches off where it must
 * not happen). So each program has a stream of its own. The tool makes a pipe for it, and sends the
 * end to read from over a socket, the control descriptor, which it has inherited:
 *
 *     begin PID PARENT how NAME   with the descriptor: a stream begins; how: exec or fork
 *     lost PID PATH               if the stream of PID ends now, it has become PATH, unrecorded
 *
 * A process holds the control descriptor as long as it is recorded, and no longer. So the other
 * side knows that nothing more can come once it reads the end of the socket.
 *
 * Valgrind cannot run a program that is setuid, unreadable or for another processor. Such a program
 * runs without it, as it would without a recording.
 */
#include "recorder.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_xarray.h"
#include "pub_tool_clientstate.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

/* Of Valgrind's core; its tool headers do not declare them. */
extern Bool VG_(clo_trace_children);
extern Int VG_(safe_fd)(Int old_fd);
extern Int VG_(pipe)(Int fd[2]);
extern Int VG_(fcntl)(Int fd, Int cmd, Addr arg);

enum {
   MAX_MESSAGE = 4096,
   MAX_INTERPRETERS = 5,   /* a script's interpreter may be a script; the kernel follows as many */
   DIRECTORY_IS_CURRENT = -100,
   SEND_NO_SIGNAL = 0x4000,
   LEVEL_SOCKET = 1,
   RIGHTS = 1,
   SETUID_OR_SETGID = 06000,
};
#define CONTROL_OPTION "--control-fd="

/* A descriptor in a message, as the kernel wants it. */
typedef struct {
   SizeT bytes;
   Int level, type, fd, padding;
} Rights;

static Int control_fd = -1;
static Bool with_children;

/* ---------------------------------------------------------------- messages */

static Word send_message(Int fd, struct vki_msghdr *message)
{
   Word result;
   __asm__ volatile("syscall" : "=a"(result)
                    : "0"((Word)__NR_sendmsg), "D"((Word)fd), "S"(message), "d"((Word)SEND_NO_SIGNAL)
                    : "rcx", "r11", "memory");
   return result;
}

/* Sends WORDS, and a descriptor with them unless it is -1. */
static void tell(const HChar *words, Int fd)
{
   struct vki_iovec text = {(void *)words, VG_(strlen)(words)};
   Rights rights = {sizeof rights - sizeof rights.padding, LEVEL_SOCKET, RIGHTS, fd, 0};
   struct vki_msghdr message = {.msg_iov = &text, .msg_iovlen = 1};
   Word sent;
   if (fd >= 0) {
      message.msg_control = &rights;
      message.msg_controllen = sizeof rights;
   }
   do
      sent = send_message(control_fd, &message);
   while (sent == -VKI_EINTR);
   if (sent < 0) {
      VG_(umsg)("sweephand: the recording cannot go on (error %ld): its reader is gone. "
                "The program ends here.\n", (long)-sent);
      VG_(exit)(1);
   }
}

Int follow_begin(const HChar *how, const HChar *program)
{
   HChar words[MAX_MESSAGE];
   Int ends[2];
   if (VG_(pipe)(ends) != 0) {
      VG_(umsg)("sweephand: no pipe can be made for the recording. The program ends here.\n");
      VG_(exit)(1);
   }
   VG_(snprintf)(words, sizeof words, "begin %d %d %s %s", VG_(getpid)(), VG_(getppid)(), how, program);
   tell(words, ends[0]);
   VG_(close)(ends[0]);
   return ends[1];
}

void follow_open(Int fd, Bool children)
{
   struct vg_stat file;
   if (VG_(fstat)(fd, &file) != 0) {
      VG_(fmsg)("sweephand: " CONTROL_OPTION "%d is not an open file descriptor\n", fd);
      VG_(exit)(1);
   }
   control_fd = VG_(safe_fd)(fd);
   with_children = children;
   VG_(clo_trace_children) = True;
}

/* ---------------------------------------------------------------- exec */

/* Can Valgrind run this file? (If there is none, the exec fails, whatever we say.) */
static Bool is_recordable(const HChar *path)
{
   HChar head[VKI_PATH_MAX + 1], *name;
   for (UInt turn = 0; turn < MAX_INTERPRETERS; turn++) {
      struct vg_stat file;
      SysRes opened = VG_(open)(path, VKI_O_RDONLY, 0);
      Int n;
      if (sr_isError(opened))
         return sr_Err(opened) != VKI_EACCES;
      if (VG_(fstat)(sr_Res(opened), &file) != 0)
         file.mode = 0;
      n = VG_(read)(sr_Res(opened), head, sizeof head - 1);
      VG_(close)(sr_Res(opened));
      if (n < 0)
         n = 0;
      head[n] = 0;
      if (file.mode & SETUID_OR_SETGID)
         return False;
      if (n >= 20 && VG_(memcmp)(head, "\177ELF", 4) == 0) /* its class, its processor */
         return head[4] == 2 && head[18] == 62 && head[19] == 0;
      if (n < 2 || head[0] != '#' || head[1] != '!')
         return True; /* for the shell that called to interpret */
      /* Its interpreter's name begins behind blanks and ends with one, or with the line. */
      for (name = head + 2; *name == ' ' || *name == '\t'; name++) {}
      for (HChar *end = name; ; end++)
         if (*end == ' ' || *end == '\t' || *end == '\n' || *end == 0) {
            *end = 0;
            break;
         }
      VG_(memmove)(head, name, VG_(strlen)(name) + 1);
      path = head;
   }
   return True;
}

/* What an exec names. The kernel finds the files of a descriptor under /proc/self/fd. */
static const HChar *exec_path(UInt number, const UWord *args, HChar *buffer, SizeT bytes)
{
   const HChar *path = (const HChar *)args[number == __NR_execveat ? 1 : 0];
   if (number == __NR_execve || (Int)args[0] == DIRECTORY_IS_CURRENT || path[0] == '/')
      return path;
   if (path[0])
      VG_(snprintf)(buffer, bytes, "/proc/self/fd/%d/%s", (Int)args[0], path);
   else
      VG_(snprintf)(buffer, bytes, "/proc/self/fd/%d", (Int)args[0]);
   return buffer;
}

/* The option by which the next program's tool finds the descriptor that it inherits. */
static void pass_control_on(void)
{
   XArray *options = VG_(args_for_valgrind);
   HChar *option = VG_(malloc)("sweephand.option", sizeof CONTROL_OPTION + 12);
   VG_(sprintf)(option, CONTROL_OPTION "%d", control_fd);
   for (Word i = 0; i < VG_(sizeXA)(options); i++) {
      HChar **there = VG_(indexXA)(options, i);
      if (VG_(strncmp)(*there, CONTROL_OPTION, sizeof CONTROL_OPTION - 1) == 0)
         *there = option;
   }
   VG_(fcntl)(control_fd, VKI_F_SETFD, 0);
}

void follow_before_exec(UInt number, const UWord *args)
{
   HChar buffer[MAX_MESSAGE], words[MAX_MESSAGE];
   const HChar *path;
   if (control_fd < 0)
      return;
   path = (const HChar *)args[number == __NR_execveat ? 1 : 0];
   if (!VG_(am_is_valid_for_client)((Addr)path, 1, VKI_PROT_READ))
      return; /* the call will fail */
   path = exec_path(number, args, buffer, sizeof buffer);
   VG_(clo_trace_children) = is_recordable(path);
   if (VG_(clo_trace_children)) {
      pass_control_on();
   } else {
      VG_(snprintf)(words, sizeof words, "lost %d %s", VG_(getpid)(), path);
      tell(words, -1);
   }
}

/* It did not succeed. */
void follow_after_exec(void)
{
   if (control_fd >= 0)
      VG_(fcntl)(control_fd, VKI_F_SETFD, VKI_FD_CLOEXEC);
}

/* ---------------------------------------------------------------- fork */

/* In the child. True: it is recorded too. */
Bool follow_forked(void)
{
   if (control_fd >= 0 && with_children)
      return True;
   if (control_fd >= 0)
      VG_(close)(control_fd);
   control_fd = -1;
   VG_(clo_trace_children) = False; /* what it becomes runs without us, at its own speed */
   return False;
}
