/* SPDX-License-Identifier: GPL-2.0-or-later */
/* FUNCTIONS functions, each of which touches the next page of 64. main calls `all`, which calls
 * them. */
   .text
   .globl main
   .type main, @function
main:
   call all
   xor %eax, %eax
   ret
   .size main, . - main

   .type all, @function
all:
   push %rbx
   push %r12
   lea area(%rip), %r12
   xor %ebx, %ebx
.altmacro
.macro call_one number
   call touch_\number
.endm
.set n, 0
.rept FUNCTIONS
   call_one %n
   .set n, n + 1
.endr
   pop %r12
   pop %rbx
   ret
   .size all, . - all

.macro function number
   .type touch_\number, @function
touch_\number:
   movb $1, (%r12, %rbx)
   addl $4096, %ebx
   andl $0x3f000, %ebx
   ret
   .size touch_\number, . - touch_\number
.endm
.set n, 0
.rept FUNCTIONS
   function %n
   .set n, n + 1
.endr

   .bss
   .balign 4096
area:
   .skip 64 * 4096
   .section .note.GNU-stack, "", @progbits
