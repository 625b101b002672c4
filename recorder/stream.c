/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The PGTR version 1 stream: encoder and output buffer.
 *
 * Header: "PGTR", byte 1 (version), byte 12 (page shift), varint K (window), varint flags (bit 1:
 * the pages that system calls touch are included), varint n, n bytes program name. Then records,
 * each starting with a varint v. Even: a page reference, bit 1 = write, v >> 2 = zig-zag of (page -
 * previous referenced page, which starts at 0). Odd: control, op = v >> 1, then its operands. All
 * integers are LEB128 varints.
 *
 * PLACE is code in the program and how it was reached. It has an operand, 1 + the number of the
 * place that calls it or 0, and a text: varint n, n bytes. The text has a line for the function,
 * and before it one for each function that is inlined there, the innermost first: what Valgrind
 * says of the code, a tab, the file that it is in, a tab, its address in that file (hexadecimal).
 * Of Python code the file is "[python]". The first PLACE of a stream is number 0. MADE follows the
 * ALLOC of an object and has the number of the place at which the object was made. CODE has the
 * number of the place of the code that makes the references that follow it. NOTE has a text, too: a
 * sentence for whoever reads the trace. ARENA has a first page and a number of pages: an allocator
 * keeps small allocations there. SMALL has the address, the bytes and the number of the place of
 * one in some 1 KiB of them, and GONE the address of one that is freed. (These three may come a
 * little before references that were made earlier.)
 *
 * A program has one stream (follow.c). It goes to a pipe whose reader compresses it. The descriptor
 * is moved to where the program can neither see nor close it, and is closed on exec. If the reader
 * goes away, the recording has no purpose any more and the program would run on slowly for nothing:
 * the run ends with a message.
 */
#include "recorder.h"

#include "pub_tool_vki.h"

/* A function of Valgrind's core that its tool headers do not declare. */
extern Int VG_(safe_fd)(Int old_fd);

enum {
   BUFFER_BYTES = 1 << 16,
   VARINT_BYTES = 10,
   MAX_OPERANDS = 7,
   CONTROL_BYTES = VARINT_BYTES * (1 + MAX_OPERANDS),
};

static UChar buffer[BUFFER_BYTES];
static UInt used;          /* bytes of the buffer that are filled */
static UWord previous;     /* the page of the last reference record */
static Int out_fd = -1;    /* where the stream goes, -1 once it is closed */

static void put_varint(ULong v)
{
   while (v >= 0x80) {
      buffer[used++] = (UChar)(v | 0x80);
      v >>= 7;
   }
   buffer[used++] = (UChar)v;
}

/* Short writes and interrupted ones are carried on. */
void stream_flush(void)
{
   UInt sent = 0;
   while (sent < used && out_fd >= 0) {
      Int n = VG_(write)(out_fd, buffer + sent, used - sent);
      if (n > 0)
         sent += n;
      else if (n != -VKI_EINTR) {
         VG_(umsg)("sweephand: the trace cannot be written (error %d): its reader is gone. "
                   "The recording and the program end here.\n", -n);
         VG_(exit)(1);
      }
   }
   used = 0;
}

static void make_room(UInt bytes)
{
   if (UNLIKELY_(used + bytes > BUFFER_BYTES))
      stream_flush();
}

void stream_open(Int fd, UInt window, const HChar *program)
{
   struct vg_stat file;
   SizeT n = VG_(strlen)(program);
   if (n > PAGE_BYTES)
      n = PAGE_BYTES;
   if (VG_(fstat)(fd, &file) != 0) {
      VG_(fmsg)("sweephand: --out-fd=%d is not an open file descriptor\n", fd);
      VG_(exit)(1);
   }
   out_fd = VG_(safe_fd)(fd);
   previous = 0;
   VG_(memcpy)(buffer, "PGTR\1\14", 6);
   used = 6;
   put_varint(window);
   put_varint(1 << 1);
   put_varint(n);
   VG_(memcpy)(buffer + used, program, n);
   used += n;
}

void stream_reference(UWord page, UInt write)
{
   Word step = (Word)(page - previous);
   ULong zigzag = ((ULong)step << 1) ^ (ULong)(step >> 63);
   make_room(VARINT_BYTES);
   put_varint(zigzag << 2 | write << 1);
   previous = page;
   totals.records++;
}

void stream_control(Op op, UInt n, const ULong *operands)
{
   tl_assert(n <= MAX_OPERANDS);
   make_room(CONTROL_BYTES);
   put_varint((ULong)op << 1 | 1);
   for (UInt i = 0; i < n; i++)
      put_varint(operands[i]);
}

static void put_text(UInt bytes, const HChar *text)
{
   put_varint(bytes);
   VG_(memcpy)(buffer + used, text, bytes);
   used += bytes;
}

/* Nothing of the references changes by it, so it need not wait for those before it. CALLER is 1 +
   the number of the place that calls it, or 0. */
void stream_place(ULong caller, UInt bytes, const HChar *text)
{
   tl_assert(CONTROL_BYTES + bytes <= BUFFER_BYTES);
   make_room(CONTROL_BYTES + bytes);
   put_varint((ULong)OP_PLACE << 1 | 1);
   put_varint(caller);
   put_text(bytes, text);
}

void stream_note(const HChar *text)
{
   make_room(CONTROL_BYTES + VG_(strlen)(text));
   put_varint((ULong)OP_NOTE << 1 | 1);
   put_text(VG_(strlen)(text), text);
}

void stream_forget(void)
{
   if (out_fd >= 0)
      VG_(close)(out_fd);
   out_fd = -1;
   used = 0;
}
