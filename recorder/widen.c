/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Makes the program's floating point faster than Valgrind alone does: two things that VEX
 * translates far more slowly than it must.
 *
 * Scalar loads. VEX keeps the vector registers of the program in memory. It translates a scalar
 * load (movsd, movss) as "store 16 zero bytes, load, store the 8 or 4 low bytes", and the
 * arithmetic that follows as a load of all 16. No processor can forward two stores to one load:
 * each such load waits until both have left the store buffer, some 15 to 20 cycles, two or three
 * times an iteration in ordinary numeric code. That alone is half the cost of Valgrind without any
 * tool there.
 *
 * So the two stores are joined to one of 16 bytes, and a load of a register whose value is known
 * from earlier in the superblock becomes that value:
 *
 *     PUT(224) = V128{0}                          (gone)
 *     t1 = LDle:I64(t0)                           t1 = LDle:I64(t0)
 *     PUT(224) = t1                               t9 = 64UtoV128(t1);  PUT(224) = t9
 *     t2 = GET:V128(224)                          t2 = t9
 *
 * What the program can see does not change: the registers hold the same at every exit, and at every
 * access that may fault. (If the scalar load itself faults the register keeps its old value, as on
 * the processor; VEX would have zeroed it.)
 *
 * Fused multiply-adds. VEX calls an emulation for each lane, some 30 ns a time, and not always
 * exact. A helper that is the processor's own instruction takes a tenth of that, and the program
 * gets the same numbers as without Valgrind. (To nearest; VEX knows no other rounding here.)
 */
#include "recorder.h"

#include "libvex_guest_amd64.h"

enum {
   CHUNK_BYTES = 16,
   FIRST = offsetof(VexGuestAMD64State, guest_YMM0),
   END = offsetof(VexGuestAMD64State, guest_YMM15) + 32,
   N_CHUNKS = (END - FIRST) / CHUNK_BYTES,
   NONE = -1,
};

/* What is known of 16 bytes of the vector registers at this point of the superblock. */
static struct {
   IRExpr *value; /* a temporary or constant that equals them, or NULL */
   Int zeroing;   /* the statement that has set them to zero and that nothing depends on yet */
   UInt since;    /* the instruction that it belongs to */
} chunks[N_CHUNKS];
static UInt instruction;

static Int chunk_at(Int offset) { return (offset - FIRST) / CHUNK_BYTES; }

static Bool is_chunk(Int offset)
{
   return offset >= FIRST && offset < END && (offset - FIRST) % CHUNK_BYTES == 0;
}

static void forget(Int offset, Int bytes)
{
   for (Int i = 0; i < N_CHUNKS; i++) {
      Int start = FIRST + i * CHUNK_BYTES;
      if (start < offset + bytes && offset < start + CHUNK_BYTES) {
         chunks[i].value = NULL;
         chunks[i].zeroing = NONE;
      }
   }
}

static void forget_all(void) { forget(FIRST, END - FIRST); }

/* From here on something may depend on the registers as they are. */
static void settle(void)
{
   for (Int i = 0; i < N_CHUNKS; i++)
      chunks[i].zeroing = NONE;
}

/* An access that may fault depends on what earlier instructions have done. */
static void settle_earlier(void)
{
   for (Int i = 0; i < N_CHUNKS; i++)
      if (chunks[i].since != instruction)
         chunks[i].zeroing = NONE;
}

void widen_begin(void) { forget_all(); }

static IRExpr *assign(IRSB *out, IRType type, IRExpr *e)
{
   IRTemp t = newIRTemp(out->tyenv, type);
   addStmtToIRSB(out, IRStmt_WrTmp(t, e));
   return IRExpr_RdTmp(t);
}

/* A scalar as the low part of 16 bytes, zero above; NULL for a type that no scalar load has. */
static IRExpr *widened(IRSB *out, IRExpr *scalar)
{
   switch (typeOfIRExpr(out->tyenv, scalar)) {
   case Ity_F64:
      scalar = assign(out, Ity_I64, IRExpr_Unop(Iop_ReinterpF64asI64, scalar));
      /* fall through */
   case Ity_I64:
      return assign(out, Ity_V128, IRExpr_Unop(Iop_64UtoV128, scalar));
   case Ity_F32:
      scalar = assign(out, Ity_I32, IRExpr_Unop(Iop_ReinterpF32asI32, scalar));
      /* fall through */
   case Ity_I32:
      return assign(out, Ity_V128, IRExpr_Unop(Iop_32UtoV128, scalar));
   default:
      return NULL;
   }
}

static Bool is_zero(const IRExpr *e)
{
   return e->tag == Iex_Const && e->Iex.Const.con->tag == Ico_V128 && e->Iex.Const.con->Ico.V128 == 0;
}

static IRStmt *put(IRSB *out, IRStmt *s)
{
   Int offset = s->Ist.Put.offset, chunk = chunk_at(offset);
   IRExpr *data = s->Ist.Put.data;
   IRType type = typeOfIRExpr(out->tyenv, data);
   if (is_chunk(offset) && chunks[chunk].zeroing != NONE) {
      IRExpr *wide = widened(out, data);
      if (wide) {
         out->stmts[chunks[chunk].zeroing] = IRStmt_NoOp();
         chunks[chunk].zeroing = NONE;
         chunks[chunk].value = wide;
         return IRStmt_Put(offset, wide);
      }
   }
   forget(offset, sizeofIRType(type));
   if (is_chunk(offset) && type == Ity_V128) {
      chunks[chunk].value = data;
      chunks[chunk].zeroing = is_zero(data) ? out->stmts_used : NONE;
      chunks[chunk].since = instruction;
   }
   return s;
}

/* x * y + z, rounded once. */
static ULong fused_64(ULong x, ULong y, ULong z)
{
   __asm__("movq %1, %%xmm0\n\tmovq %2, %%xmm1\n\tmovq %3, %%xmm2\n\t"
           "vfmadd213sd %%xmm2, %%xmm1, %%xmm0\n\tmovq %%xmm0, %0"
           : "=r"(x) : "0"(x), "r"(y), "r"(z) : "xmm0", "xmm1", "xmm2");
   return x;
}

static ULong fused_32(ULong x, ULong y, ULong z)
{
   __asm__("movd %k1, %%xmm0\n\tmovd %k2, %%xmm1\n\tmovd %k3, %%xmm2\n\t"
           "vfmadd213ss %%xmm2, %%xmm1, %%xmm0\n\tmovd %%xmm0, %k0"
           : "=r"(x) : "0"(x), "r"(y), "r"(z) : "xmm0", "xmm1", "xmm2");
   return x;
}

static Bool processor_has_fused(void)
{
   UInt a = 1, b, c = 0, d;
   __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
   return (c >> 12) & 1;
}

/* E, a multiply-add, by the processor's instruction; NULL if it is something else. */
static IRExpr *fused(IRSB *out, const IRExpr *e)
{
   static Int available = NONE;
   if (e->tag != Iex_Qop)
      return NULL;
   if (available == NONE)
      available = processor_has_fused();
   const IRQop *q = e->Iex.Qop.details;
   Bool wide = q->op == Iop_MAddF64;
   Bool nearest = q->arg1->tag == Iex_Const && q->arg1->Iex.Const.con->Ico.U32 == Irrm_NEAREST;
   if (!available || !nearest || !(wide || q->op == Iop_MAddF32))
      return NULL;
   IRExpr *in[] = {q->arg2, q->arg3, q->arg4};
   for (UInt i = 0; i < 3; i++) {
      in[i] = wide ? assign(out, Ity_I64, IRExpr_Unop(Iop_ReinterpF64asI64, in[i]))
                   : assign(out, Ity_I32, IRExpr_Unop(Iop_ReinterpF32asI32, in[i]));
      if (!wide)
         in[i] = assign(out, Ity_I64, IRExpr_Unop(Iop_32Uto64, in[i]));
   }
   void *helper = wide ? fused_64 : fused_32;
   IRExpr *bits = assign(out, Ity_I64, mkIRExprCCall(Ity_I64, 0, "fused", VG_(fnptr_to_fnentry)(helper),
                                                     mkIRExprVec_3(in[0], in[1], in[2])));
   if (wide)
      return IRExpr_Unop(Iop_ReinterpI64asF64, bits);
   return IRExpr_Unop(Iop_ReinterpI32asF32, assign(out, Ity_I32, IRExpr_Unop(Iop_64to32, bits)));
}

static IRStmt *write_temporary(IRSB *out, IRStmt *s)
{
   const IRExpr *e = s->Ist.WrTmp.data;
   IRExpr *faster = fused(out, e);
   if (faster)
      return IRStmt_WrTmp(s->Ist.WrTmp.tmp, faster);
   if (e->tag == Iex_Get && e->Iex.Get.offset >= FIRST && e->Iex.Get.offset < END) {
      Int offset = e->Iex.Get.offset, chunk = chunk_at(offset);
      if (is_chunk(offset) && e->Iex.Get.ty == Ity_V128 && chunks[chunk].value)
         return IRStmt_WrTmp(s->Ist.WrTmp.tmp, chunks[chunk].value);
      settle();
   }
   if (e->tag == Iex_Load)
      settle_earlier();
   return s;
}

/* The statement to emit next in S's place; others may be emitted before it. */
IRStmt *widen(IRSB *out, IRStmt *s)
{
   switch (s->tag) {
   case Ist_Put:
      return put(out, s);
   case Ist_WrTmp:
      return write_temporary(out, s);
   case Ist_IMark:
      instruction++;
      return s;
   case Ist_Exit:
      settle();
      return s;
   case Ist_Store:
   case Ist_StoreG:
   case Ist_LoadG:
   case Ist_CAS:
   case Ist_LLSC:
      settle_earlier();
      return s;
   case Ist_PutI:
   case Ist_Dirty:
      forget_all();
      return s;
   default: /* hints and fences */
      return s;
   }
}
