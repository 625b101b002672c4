/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The frames of CPython: which Python function and line runs.
 *
 * The program is not asked; its memory is read. From CPython 3.13 on the interpreter says itself
 * where its fields are (_Py_DebugOffsets, at the start of _PyRuntime). Before that the offsets are
 * those of each version, below. If something is not as it should be, nothing is read, and a note
 * in the stream says why.
 *
 * The interpreter stores the place of each instruction in the frame before it executes it. The log
 * would be replayed much later. So in the interpreter's loop it is replayed at each jump to the
 * next instruction (instrument.c), when the frame still says what the log is about.
 *
 *     _PyRuntime -> interpreter -> thread (that of this stack) -> frame -> caller's frame -> ...
 *                                                                   |
 *                                      code object: file, function, first line, table of lines
 */
#include "recorder.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_vki.h"

#include "libvex_guest_amd64.h"

#include <elf.h>

enum { MAX_THREADS = 4096, MAX_FRAMES = 32, MAX_NAME = 400, MAX_LINES = 1 << 18, CHECKED = 64 };

/* Where the fields are, in bytes. */
typedef struct {
   UInt interpreters, threads, next_thread, thread_id;
   UInt top;                /* of a thread: its frame, or what the frame is in */
   Bool top_is_in_cframe;   /* it is in a structure (3.11, 3.12), at this offset of it: */
   UInt top_in_cframe;
   UInt caller, code, at;   /* of a frame */
   Bool at_is_number;       /* AT is the number of the instruction (3.10), not its address */
   UInt instructions;       /* of a code object */
   UInt file, name, first_line, lines;
   UInt ascii, compact;     /* of a string: where its characters are */
   UInt kind_shift;         /* of a string's state: below are the bits that say it is interned */
} Offsets;

static const Offsets of_3_10 = {
   .interpreters = 32, .threads = 8, .next_thread = 8, .thread_id = 176, .top = 24,
   .caller = 24, .code = 32, .at = 96, .at_is_number = True,
   .file = 104, .name = 112, .first_line = 40, .lines = 120, .ascii = 48, .compact = 72,
   .kind_shift = 2,
};
static const Offsets of_3_11 = {
   .interpreters = 40, .threads = 16, .next_thread = 8, .thread_id = 152,
   .top = 56, .top_is_in_cframe = True, .top_in_cframe = 8,
   .caller = 48, .code = 32, .at = 56, .instructions = 184,
   .file = 112, .name = 128, .first_line = 72, .lines = 136, .ascii = 48, .compact = 72,
   .kind_shift = 2,
};
static const Offsets of_3_12 = {
   .interpreters = 40, .threads = 72, .next_thread = 8, .thread_id = 136,
   .top = 56, .top_is_in_cframe = True, .top_in_cframe = 0,
   .caller = 8, .code = 0, .at = 56, .instructions = 192,
   .file = 112, .name = 128, .first_line = 68, .lines = 136, .ascii = 40, .compact = 56,
   .kind_shift = 2,
};

enum { STRING_LENGTH = 16, STRING_STATE = 32, BYTES_LENGTH = 16, BYTES = 32, TYPE = 8 };

/* The table in _PyRuntime: numbers of its words, for each version that has it. */
typedef struct {
   UShort interpreters, threads, next_thread, top, thread_id, caller, code, at, frame_bytes;
   UShort file, name, lines, first_line, instructions, code_bytes;
} Told;
static const Told told_3_13 = {
   .interpreters = 5, .threads = 9, .next_thread = 21, .top = 23, .thread_id = 24,
   .caller = 29, .code = 30, .at = 31, .frame_bytes = 28,
   .file = 35, .name = 37, .lines = 38, .first_line = 39, .instructions = 43, .code_bytes = 34,
};
static const Told told_3_14 = {
   .interpreters = 5, .threads = 9, .next_thread = 24, .top = 26, .thread_id = 27,
   .caller = 32, .code = 33, .at = 34, .frame_bytes = 31,
   .file = 40, .name = 42, .lines = 43, .first_line = 44, .instructions = 48, .code_bytes = 39,
};

static enum { NOT_SEEN, KNOWN, REFUSED } state;
static Offsets of;
static Addr runtime, code_type;

/* Of a thread, by Valgrind's number. */
static Addr threads[MAX_THREADS];

/* ---------------------------------------------------------------- its memory */

static Addr checked[CHECKED]; /* pages that can be read, by their last digits */

/* Mappings may have changed. */
void python_forget_memory(void)
{
   if (state == KNOWN)
      VG_(memset)(checked, 0, sizeof checked);
}

static Bool is_readable(Addr page)
{
   Addr *known = &checked[page % CHECKED];
   if (LIKELY_(*known == page))
      return page != 0; /* page 0 stands for a free place, too */
   if (!VG_(am_is_valid_for_client)(page << PAGE_SHIFT, PAGE_BYTES, VKI_PROT_READ))
      return False;
   *known = page;
   return True;
}

static Bool are_readable(Addr start, SizeT bytes)
{
   for (Addr page = page_of(start); page <= page_of(start + bytes - 1); page++)
      if (!is_readable(page))
         return False;
   return True;
}

/* The word at ADDRESS; 0 if there is none. */
static UWord word_at(Addr address)
{
   return are_readable(address, sizeof(UWord)) ? *(UWord *)address : 0;
}

static UInt number_at(Addr address)
{
   return are_readable(address, sizeof(UInt)) ? *(UInt *)address : 0;
}

/* ---------------------------------------------------------------- which interpreter */

static Int file = -1; /* the one with the interpreter's loop */
static Addr loaded;  /* where its address 0 is */

static Bool get(void *to, OffT from, SizeT bytes)
{
   return VG_(lseek)(file, from, VKI_SEEK_SET) == from && VG_(read)(file, to, bytes) == (Int)bytes;
}

/* The address of a symbol in .dynsym. Valgrind knows no symbols of the section .PyRuntime. */
static Addr symbol(const HChar *name)
{
   Elf64_Ehdr elf;
   Elf64_Shdr symbols, strings;
   Elf64_Sym one;
   HChar found[32];
   if (!get(&elf, 0, sizeof elf))
      return 0;
   for (UInt section = 0; section < elf.e_shnum; section++) {
      if (!get(&symbols, elf.e_shoff + section * sizeof symbols, sizeof symbols)
          || symbols.sh_type != SHT_DYNSYM
          || !get(&strings, elf.e_shoff + symbols.sh_link * sizeof strings, sizeof strings))
         continue;
      UInt length = VG_(strlen)(name) + 1;
      for (OffT at = 0; at + sizeof one <= symbols.sh_size; at += sizeof one)
         if (get(&one, symbols.sh_offset + at, sizeof one) && one.st_shndx != SHN_UNDEF
             && get(found, strings.sh_offset + one.st_name, length)
             && VG_(strcmp)(found, name) == 0)
            return loaded + one.st_value;
   }
   return 0;
}

static void open_file(Addr code)
{
   DebugInfo *object = VG_(find_DebugInfo)(VG_(current_DiEpoch)(), code);
   const HChar *path = object ? VG_(DebugInfo_get_filename)(object) : NULL;
   SysRes opened = VG_(open)(path ? path : "", VKI_O_RDONLY, 0);
   file = sr_isError(opened) ? -1 : (Int)sr_Res(opened);
   loaded = object ? VG_(DebugInfo_get_text_bias)(object) : 0;
}

static void refuse(const HChar *why, UInt version)
{
   HChar note[200];
   state = REFUSED;
   VG_(close)(file);
   if (version != 0)
      VG_(snprintf)(note, sizeof note, "Python functions and lines are not known: %s (CPython %u.%u.%u)",
                    why, version >> 24, (version >> 16) & 255, (version >> 8) & 255);
   else
      VG_(snprintf)(note, sizeof note, "Python functions and lines are not known: %s", why);
   stream_note(note);
}

/* Takes the offsets that the interpreter tells. False: they make no sense. */
static Bool take_told(const Told *told)
{
   const UWord *words = (const UWord *)runtime;
   if (!are_readable(runtime, 64 * sizeof(UWord)))
      return False;
   of = (Offsets){
      .interpreters = words[told->interpreters], .threads = words[told->threads],
      .next_thread = words[told->next_thread], .thread_id = words[told->thread_id],
      .top = words[told->top], .caller = words[told->caller], .code = words[told->code],
      .at = words[told->at], .instructions = words[told->instructions], .file = words[told->file],
      .name = words[told->name], .first_line = words[told->first_line],
      .lines = words[told->lines], .ascii = 40, .compact = 56, .kind_shift = 2,
   };
   UWord frame = words[told->frame_bytes], code = words[told->code_bytes];
   return frame < 1024 && code < 1024 && of.caller < frame && of.code < frame && of.at < frame
          && of.file < code && of.name < code && of.lines < code && of.first_line < code
          && of.instructions <= code && of.top < 4096 && of.thread_id < 4096
          && of.next_thread < 4096 && of.interpreters < 1 << 20 && of.threads < 1 << 20;
}

static void lines_open(void);

/* The interpreter's loop is about to run for the first time. */
static void look_at_interpreter(Addr code)
{
   open_file(code);
   runtime = symbol("_PyRuntime");
   code_type = symbol("PyCode_Type");
   Addr version_at = symbol("Py_Version");
   if (runtime == 0 || code_type == 0)
      return refuse("the interpreter has no symbols", 0);
   UInt version = version_at ? number_at(version_at) : 0;
   if (version == 0 && symbol("Py_NewRef"))
      version = 0x030a00f0; /* the last one without Py_Version */
   Bool known = True;
   switch (version >> 16) {
   case 0x030a: of = of_3_10; break;
   case 0x030b: of = of_3_11; break;
   case 0x030c: of = of_3_12; break;
   case 0x030d: known = take_told(&told_3_13); break;
   case 0x030e: known = take_told(&told_3_14); break;
   default:
      return refuse("CPython 3.10 to 3.14 are", version);
   }
   if (version >= 0x030d0000 && *(const UWord *)(runtime + 16) != 0)
      return refuse("builds without the global lock keep them elsewhere", version);
   if (!known)
      return refuse("its table of offsets is not as expected", version);
   VG_(close)(file);
   lines_open();
   state = KNOWN;
}

/* Is this the code of the interpreter's loop? Asked of each superblock that is translated. */
Bool python_is_loop(Addr code)
{
   static Addr start, end; /* of one that is known to be */
   const HChar *name;
   if (code >= start && code < end)
      return True;
   if (!VG_(get_fnname)(VG_(current_DiEpoch)(), code, &name)
       || (VG_(strncmp)(name, "_PyEval_EvalFrameDefault", 24) != 0
           && VG_(strncmp)(name, "_TAIL_CALL_", 11) != 0))
      return False;
   if (state == NOT_SEEN)
      look_at_interpreter(code);
   start = code;
   end = code + 1;
   return True;
}

Bool python_runs(void) { return state == KNOWN; }

/* ---------------------------------------------------------------- lines */

/* The number at *AT of a table: six bits a byte, the lowest first. */
static UInt varint(const UChar *table, UInt bytes, UInt *at)
{
   UInt value = 0, shift = 0;
   while (*at < bytes) {
      UChar byte = table[(*at)++];
      value |= (UInt)(byte & 63) << shift;
      shift += 6;
      if (!(byte & 64) || shift > 24)
         break;
   }
   return value;
}

/* CPython 3.10: pairs of bytes, a number of bytes of code and a difference of lines. */
static Int line_by_pairs(const UChar *table, UInt bytes, UInt wanted, Int line)
{
   UInt end = 0;
   for (UInt at = 0; at + 1 < bytes; at += 2) {
      Int step = (signed char)table[at + 1];
      end += table[at];
      if (step != -128)
         line += step;
      if (wanted < end)
         return line;
   }
   return line;
}

/* From 3.11 on: entries of different lengths, each for one to eight words of code. */
static Int line_by_entries(const UChar *table, UInt bytes, UInt wanted, Int line)
{
   UInt end = 0;
   for (UInt at = 0; at < bytes;) {
      UChar head = table[at++];
      UInt kind = (head >> 3) & 15;
      end += 2 * ((head & 7) + 1);
      if (kind == 13 || kind == 14) {
         UInt step = varint(table, bytes, &at);
         line += step & 1 ? -(Int)(step >> 1) : (Int)(step >> 1);
      } else if (kind >= 10 && kind <= 12) {
         line += kind - 10;
      }
      if (wanted < end)
         return line;
      while (at < bytes && !(table[at] & 128))
         at++;
   }
   return line;
}

static Int line_of(Addr code, UInt at)
{
   Int first = (Int)number_at(code + of.first_line);
   Addr table = word_at(code + of.lines);
   UWord bytes = table ? word_at(table + BYTES_LENGTH) : 0;
   if (bytes == 0 || bytes > 1 << 20 || !are_readable(table + BYTES, bytes))
      return first;
   const UChar *entries = (const UChar *)table + BYTES;
   return of.at_is_number ? line_by_pairs(entries, bytes, at, first)
                          : line_by_entries(entries, bytes, at, first);
}

/* ---------------------------------------------------------------- names */

/* Appends a string's characters; those beyond ASCII as question marks, if they are not in UTF-8. */
static UInt put_string(HChar *to, UInt room, Addr string)
{
   UWord length = word_at(string + STRING_LENGTH);
   UInt bits = number_at(string + STRING_STATE);
   /* CPython 3.14 has 16 bits before the kind. */
   Bool wide = (bits >> of.kind_shift & 7) == 0;
   UInt state_bits = bits >> (wide ? 16 : of.kind_shift);
   UInt kind = state_bits & 7;
   Bool ascii = state_bits >> 4 & 1;
   Addr data = string + (ascii ? of.ascii : of.compact);
   UInt n = 0;
   if (string == 0 || (kind != 1 && kind != 2 && kind != 4) || length > 1 << 16
       || !are_readable(data, length * kind + 1))
      return 0;
   for (UWord i = 0; i < length && n + 1 < room; i++) {
      UInt c = kind == 1 ? ((UChar *)data)[i] : kind == 2 ? ((UShort *)data)[i] : ((UInt *)data)[i];
      to[n++] = c >= 32 && c < 127 ? (HChar)c : '?';
   }
   return n;
}

/* ---------------------------------------------------------------- lines that have run */

/* A line of a function. Its number is the code of a context. */
typedef struct {
   Addr code, name;
   Int line;
   HChar *text; /* "step (/home/me/relax.py:12)", a tab, the module, a tab, an offset */
} Line;

/* From an instruction to the number of its line. */
typedef struct {
   Addr code, name;
   UInt at, line;
} Instruction;

static Line *lines;
static UInt n_lines = 1;
static Instruction *instructions; /* a table by hash, MAX_LINES * 4 places */
static UInt n_instructions;
static Bool lost; /* there were too many lines */

static void lines_open(void)
{
   lines = VG_(calloc)("sweephand.python", MAX_LINES, sizeof *lines);
   instructions = VG_(calloc)("sweephand.python", 4 * MAX_LINES, sizeof *instructions);
}

static UInt new_line(Addr code, Addr name, Int line)
{
   HChar text[3 * MAX_NAME];
   UInt n = put_string(text, MAX_NAME, name);
   text[n++] = ' ';
   text[n++] = '(';
   n += put_string(text + n, MAX_NAME, word_at(code + of.file));
   VG_(sprintf)(text + n, ":%d)\t[python]\t0\n", line);
   lines[n_lines] = (Line){code, name, line, VG_(strdup)("sweephand.python", text)};
   return n_lines++;
}

static UInt line_number(Addr code, UInt at)
{
   Addr name = word_at(code + of.name);
   UWord hash = (code ^ (UWord)at << 44 ^ name << 20) * 0x9E3779B97F4A7C15ULL;
   UInt place = (UInt)(hash >> 40) % (4 * MAX_LINES);
   while (instructions[place].code != 0) {
      const Instruction *known = &instructions[place];
      if (known->code == code && known->at == at && known->name == name)
         return known->line;
      place = (place + 1) % (4 * MAX_LINES);
   }
   if (n_lines == MAX_LINES || n_instructions == 2 * MAX_LINES) {
      lost = True;
      return 0;
   }
   Int line = line_of(code, at);
   UInt n = 0;
   for (UInt i = n_lines - 1; i > 0 && n == 0 && n_lines - i < 64; i--)
      if (lines[i].code == code && lines[i].name == name && lines[i].line == line)
         n = i;
   if (n == 0)
      n = new_line(code, name, line);
   if (VG_(strncmp)(lines[n].text, "<interpreter trampoline>", 24) == 0)
      n = 0; /* how CPython 3.12 calls Python code from C */
   instructions[place] = (Instruction){code, name, at, n};
   n_instructions++;
   return n;
}

Bool python_lost(void) { return lost; }

const HChar *python_text(UInt line) { return lines[line].text; }

/* ---------------------------------------------------------------- frames */

static Addr thread_state(ThreadId tid)
{
   UWord id = 0;
   if (tid == 0 || tid >= MAX_THREADS)
      return 0;
   VG_(get_shadow_regs_area)(tid, (UChar *)&id, 0, offsetof(VexGuestAMD64State, guest_FS_CONST),
                             sizeof id);
   if (id == 0)
      return 0;
   if (threads[tid] != 0 && word_at(threads[tid] + of.thread_id) == id)
      return threads[tid];
   Addr interpreter = word_at(runtime + of.interpreters);
   Addr state = interpreter ? word_at(interpreter + of.threads) : 0;
   for (UInt n = 0; state != 0 && n < MAX_THREADS; n++) {
      if (word_at(state + of.thread_id) == id)
         return threads[tid] = state;
      state = word_at(state + of.next_thread);
   }
   return 0;
}

static Addr top_frame(ThreadId tid)
{
   Addr thread = thread_state(tid);
   if (thread == 0)
      return 0;
   Addr top = word_at(thread + of.top);
   return of.top_is_in_cframe && top != 0 ? word_at(top + of.top_in_cframe) : top;
}

/* The number of the line that a frame is at; 0 if it is no frame of Python code. */
static UInt line_of_frame(Addr frame)
{
   Addr code = word_at(frame + of.code) & ~(Addr)7; /* the lowest bits are flags, in 3.14 */
   if (code == 0 || word_at(code + TYPE) != code_type)
      return 0;
   if (of.at_is_number)
      return line_number(code, 2 * number_at(frame + of.at));
   UWord at = word_at(frame + of.at) - (code + of.instructions);
   return line_number(code, at < 1 << 20 ? (UInt)at : 0);
}

static struct {
   Bool valid;
   /* The innermost frame and its caller, and where each was. */
   Addr frame, caller;
   UWord code, at, caller_at;
   UInt context;
   /* The lines of the frames, the outermost first, and the context of each. */
   UInt n, lines[MAX_FRAMES], contexts[MAX_FRAMES];
} last;

void python_changed(void) { last.valid = False; }

UInt python_here(ThreadId tid)
{
   UInt found[MAX_FRAMES], n = 0, same = 0, here = 0;
   if (state != KNOWN)
      return 0;
   if (last.valid)
      return last.context;
   /* A caller further out is elsewhere only if these are, too, but for frames at the same addresses
      at the same instructions. */
   Addr top = top_frame(tid);
   UWord code = word_at(top + of.code), at = word_at(top + of.at);
   Addr caller = top ? word_at(top + of.caller) : 0;
   UWord caller_at = caller ? word_at(caller + of.at) : 0;
   last.valid = True;
   if (top == last.frame && code == last.code && at == last.at && caller == last.caller
       && caller_at == last.caller_at)
      return last.context;
   last.frame = top;
   last.code = code;
   last.at = at;
   last.caller = caller;
   last.caller_at = caller_at;
   for (Addr frame = top; frame != 0 && n < MAX_FRAMES; frame = word_at(frame + of.caller)) {
      found[n] = line_of_frame(frame);
      n += found[n] != 0;
   }
   while (same < n && same < last.n && last.lines[same] == found[n - 1 - same])
      same++;
   for (UInt i = 0; i < n; i++) {
      if (i >= same) {
         last.lines[i] = found[n - 1 - i];
         last.contexts[i] = context_inside(here, PYTHON, last.lines[i]);
      }
      here = last.contexts[i];
   }
   last.n = n;
   last.context = here;
   return here;
}
