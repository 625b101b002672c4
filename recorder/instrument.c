/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Instrumentation of superblocks: the code that fills the log, and the paths that describe it.
 *
 * A superblock has one entry, side exits, and an end. On entry it takes its share of the log:
 *
 *     [path][value][value]...      one word for the path, one for each slot
 *
 * A slot's value is what the addresses of one or more accesses are reckoned from, stored just
 * before the first of them happens. The path says how many slots the code up to the next exit
 * fills, what accesses stand behind each, and how many instructions they took; the code replaces it
 * when it gets past that exit. So whichever exit the code leaves by, the path describes exactly
 * what it did: references and instructions cost nothing to count while the program runs.
 *
 * Neighbouring accesses at constant distances from one base (a push after a push, a field after a
 * field, the load and the store of x += 1) share a slot. When they all lie on one page, replay()
 * (log.c) makes one step of them; otherwise it takes them one by one, so nothing is lost by the
 * sharing.
 *
 * A slot holds NOT_MADE until its value is stored, and a guarded access whose guard is false stores
 * NOT_MADE itself. So of a superblock that a fault cuts off no slot after the one that faulted
 * counts. (Off by what shares that slot, and by the instructions up to the next exit: a few a
 * fault.)
 *
 * Why not compare the page number in line, and call a helper only when it changes: VEX moves
 * registers out of the way of every call that may happen, and calls would happen all the time (two
 * references in three change page in SPLASH's cholesky).
 */
#include "log.h"

#include "pub_tool_hashtable.h"
#include "pub_tool_options.h"

/* All paths of one superblock, as long as its translation lives. */
typedef struct {
   VgHashNode node; /* by the address that names the translation */
   ULong storage[];
} Paths;

static VgHashTable *paths_by_block;

/* ---------------------------------------------------------------- building a superblock */

/* An address as a base (a temporary or nothing) and a constant distance. */
typedef struct {
   IRTemp base; /* IRTemp_INVALID: the distance is the address */
   Long distance;
} Place;

/* A slot while its superblock is built. */
typedef struct {
   Place value;   /* what is stored in the log */
   Long low, end; /* the bytes covered, from the value */
   UInt first;    /* index of its first access */
   UInt n;
   Bool shared;   /* not guarded: others may join */
} Draft;

/* An exit while its superblock is built: what it knew when it was reached. */
typedef struct {
   IRConst *path; /* the constant in the code that must become the path's address */
   UInt n_slots, n_accesses, instructions;
} Exit;

/* The superblock that is being built. VEX translates one at a time. */
static struct {
   IRSB *out;
   IRTemp base;      /* where its share of the log begins */
   Place *places;    /* of every temporary */
   Draft *drafts;
   Access *accesses; /* offsets still reckoned from the value's base */
   Exit *exits;
   UInt n_drafts, n_accesses, n_exits, instructions;
   Addr code;        /* the instruction that is being translated */
} b;

static void emit(IRStmt *s) { addStmtToIRSB(b.out, s); }
static IRExpr *word(UWord v) { return IRExpr_Const(IRConst_U64(v)); }

static IRExpr *compute(IRType type, IRExpr *e)
{
   IRTemp t = newIRTemp(b.out->tyenv, type);
   emit(IRStmt_WrTmp(t, e));
   return IRExpr_RdTmp(t);
}

/* Where the value of an atom lies. */
static Place place_of(const IRExpr *atom)
{
   if (atom->tag == Iex_Const)
      return (Place){IRTemp_INVALID, (Long)atom->Iex.Const.con->Ico.U64};
   return b.places[atom->Iex.RdTmp.tmp];
}

/* Follow t = base + constant and t = base - constant. */
static void note_place(IRTemp t, const IRExpr *e)
{
   b.places[t] = (Place){t, 0};
   if (e->tag == Iex_Binop && (e->Iex.Binop.op == Iop_Add64 || e->Iex.Binop.op == Iop_Sub64)
       && e->Iex.Binop.arg1->tag == Iex_RdTmp && e->Iex.Binop.arg2->tag == Iex_Const) {
      Long step = (Long)e->Iex.Binop.arg2->Iex.Const.con->Ico.U64;
      Place from = place_of(e->Iex.Binop.arg1);
      from.distance += e->Iex.Binop.op == Iop_Add64 ? step : -step;
      if (from.distance == (Int)from.distance)
         b.places[t] = from;
   }
}

/* Store VALUE as that of the next slot. */
static void store_value(IRExpr *value)
{
   IRExpr *at = compute(Ity_I64, IRExpr_Binop(Iop_Add64, IRExpr_RdTmp(b.base),
                                              word((b.n_drafts + 1) * sizeof(UWord))));
   emit(IRStmt_Store(Iend_LE, at, value));
}

/* Can an access at PLACE join the newest slot? Only if nothing came between, no exit can tell the
   difference (each has its own list of accesses), and one page could hold them all. */
static Bool joins(Place place, UInt bytes)
{
   if (b.n_drafts == 0)
      return False;
   Draft *d = &b.drafts[b.n_drafts - 1];
   if (!d->shared || d->value.base != place.base || d->n == 255)
      return False;
   Long from = place.distance - d->value.distance, to = from + bytes;
   Long low = from < d->low ? from : d->low, end = to > d->end ? to : d->end;
   if (end - low > PAGE_BYTES)
      return False;
   d->low = low;
   d->end = end;
   return True;
}

/* An access of BYTES at the atom ADDRESS, about to happen if GUARD (NULL: always). */
static void log_access(IRExpr *address, UInt bytes, Bool write, IRExpr *guard)
{
   Place place = place_of(address);
   tl_assert(bytes >= 1 && bytes <= PAGE_BYTES);
   if (guard || !joins(place, bytes)) {
      Place value = {place.base, 0};
      if (guard) {
         value = (Place){IRTemp_INVALID, 0};
         place = value;
         store_value(compute(Ity_I64, IRExpr_ITE(guard, address, word(NOT_MADE))));
      } else if (place.base == IRTemp_INVALID) {
         value.distance = place.distance;
         store_value(address);
      } else {
         store_value(IRExpr_RdTmp(place.base));
      }
      Long from = place.distance - value.distance;
      b.drafts[b.n_drafts++] = (Draft){value, from, from + bytes, b.n_accesses, 0, guard == NULL};
   }
   Draft *d = &b.drafts[b.n_drafts - 1];
   b.accesses[b.n_accesses++] = (Access){(Int)(place.distance - d->value.distance), bytes, write, b.code};
   d->n++;
}

/* Store the path up to the next exit; which one it is will be known when that exit is reached. */
static void begin_exit(void)
{
   IRConst *path = IRConst_U64(0);
   emit(IRStmt_Store(Iend_LE, IRExpr_RdTmp(b.base), IRExpr_Const(path)));
   b.exits[b.n_exits++].path = path;
}

static void reach_exit(void)
{
   Exit *e = &b.exits[b.n_exits - 1];
   e->n_slots = b.n_drafts;
   e->n_accesses = b.n_accesses;
   e->instructions = b.instructions;
}

/* Take this superblock's share of the log, emptying the log first if it is full. How large a share
   is not known yet: finish() sets the constant that is returned. */
static IRConst *enter(void)
{
   IRConst *share = IRConst_U64(0);
   IRExpr *next = word((Addr)&log_next);
   IRExpr *full = compute(Ity_I1, IRExpr_Binop(Iop_CmpLT64U, word((Addr)(block_log + FULL_WORDS)),
                                               compute(Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, next))));
   IRDirty *call = unsafeIRDirty_0_N(0, "replay", VG_(fnptr_to_fnentry)(&replay), mkIRExprVec_0());
   call->guard = full;
   call->mFx = Ifx_Modify;
   call->mAddr = next;
   call->mSize = sizeof log_next;
   emit(IRStmt_Dirty(call));
   b.base = compute(Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, next))->Iex.RdTmp.tmp;
   emit(IRStmt_Store(Iend_LE, next,
                     compute(Ity_I64, IRExpr_Binop(Iop_Add64, IRExpr_RdTmp(b.base),
                                                   IRExpr_Const(share)))));
   begin_exit();
   return share;
}

/* Replay what the log holds, this superblock included: it is over. */
static void replay_now(void)
{
   IRDirty *call = unsafeIRDirty_0_N(0, "replay", VG_(fnptr_to_fnentry)(&replay), mkIRExprVec_0());
   call->mFx = Ifx_Modify;
   call->mAddr = word((Addr)&log_next);
   call->mSize = sizeof log_next;
   emit(IRStmt_Dirty(call));
}

static void copy_path(Path *to, const Exit *e, const Access *accesses)
{
   *to = (Path){.n_slots = e->n_slots, .words = b.n_drafts + 1, .instructions = e->instructions,
                .references = e->n_accesses};
   for (UInt i = 0; i < e->n_slots; i++) {
      const Draft *d = &b.drafts[i];
      UInt n = d->first + d->n > e->n_accesses ? e->n_accesses - d->first : d->n;
      Slot *slot = &to->slots[i];
      *slot = (Slot){.offset = (Int)d->low, .span = (UShort)(d->end - d->low - 1),
                     .n_accesses = (UChar)n, .accesses = accesses + d->first};
      for (UInt k = 0; k < n; k++)
         slot->write |= accesses[d->first + k].write;
   }
}

/* How the superblock leaves at its end. The return address is what a call writes last, and what a
   return reads last. */
static Turn turn_at_end(void)
{
   Turn turn = {.code = b.code};
   Bool call = b.out->jumpkind == Ijk_Call;
   if (!places_wanted() || !(call || b.out->jumpkind == Ijk_Ret))
      return turn;
   for (UInt i = b.n_drafts; i-- > 0;) {
      for (UInt k = b.drafts[i].first + b.drafts[i].n; k-- > b.drafts[i].first;) {
         if (b.accesses[k].write == call && b.accesses[k].bytes == sizeof(UWord)) {
            turn.kind = call ? CALLS : RETURNS;
            turn.slot = i;
            turn.offset = b.accesses[k].offset;
            return turn;
         }
      }
   }
   return turn;
}

/* Make the paths, and put their addresses and the share's size into the code. */
static void finish(Addr block, IRConst *share)
{
   SizeT access_bytes = b.n_accesses * sizeof(Access), bytes = sizeof(Paths) + access_bytes;
   tl_assert(b.n_drafts < BLOCK_WORDS);
   share->Ico.U64 = (b.n_drafts + 1) * sizeof(UWord);
   for (UInt i = 0; i < b.n_exits; i++)
      bytes += sizeof(Path) + b.exits[i].n_slots * sizeof(Slot);

   Paths *paths = VG_(malloc)("sweephand.paths", bytes);
   paths->node.key = block;
   VG_(HT_add_node)(paths_by_block, paths);
   Access *accesses = (Access *)paths->storage;
   VG_(memcpy)(accesses, b.accesses, access_bytes);
   UChar *at = (UChar *)accesses + access_bytes;
   for (UInt i = 0; i < b.n_exits; i++) {
      copy_path((Path *)at, &b.exits[i], accesses);
      if (i + 1 == b.n_exits)
         ((Path *)at)->turn = turn_at_end();
      b.exits[i].path->Ico.U64 = (Addr)at;
      at += sizeof(Path) + b.exits[i].n_slots * sizeof(Slot);
   }
}

/* Room for a superblock of N statements. A statement accesses memory at most twice. */
static void begin(IRSB *in, IRSB *out)
{
   static SizeT room;
   UInt n = in->stmts_used + 1, temps = in->tyenv->types_used;
   SizeT need = n > temps ? n : temps;
   if (need > room) {
      room = 2 * need;
      b.places = VG_(realloc)("sweephand.build", b.places, room * sizeof(Place));
      b.drafts = VG_(realloc)("sweephand.build", b.drafts, 2 * room * sizeof(Draft));
      b.accesses = VG_(realloc)("sweephand.build", b.accesses, 2 * room * sizeof(Access));
      b.exits = VG_(realloc)("sweephand.build", b.exits, room * sizeof(Exit));
   }
   for (UInt t = 0; t < temps; t++)
      b.places[t] = (Place){t, 0};
   b.out = out;
   b.n_drafts = b.n_accesses = b.n_exits = b.instructions = 0;
}

static UInt bytes_of(const IRExpr *e) { return sizeofIRType(typeOfIRExpr(b.out->tyenv, e)); }

static void log_load_guarded(const IRLoadG *load)
{
   IRType result, loaded;
   typeOfIRLoadGOp(load->cvt, &result, &loaded);
   log_access(load->addr, sizeofIRType(loaded), False, load->guard);
}

/* A helper that reads or writes guest memory, such as FXSAVE. */
static void log_helper(const IRDirty *d)
{
   Bool certain = d->guard->tag == Iex_Const && d->guard->Iex.Const.con->Ico.U1;
   IRExpr *guard = certain ? NULL : d->guard;
   if (d->mFx == Ifx_Read || d->mFx == Ifx_Modify)
      log_access(d->mAddr, d->mSize, False, guard);
   if (d->mFx == Ifx_Write || d->mFx == Ifx_Modify)
      log_access(d->mAddr, d->mSize, True, guard);
}

/* A compare-and-swap loads, and stores whether or not it succeeds (the bus sees a locked cycle). */
static void log_cas(const IRCAS *cas)
{
   UInt bytes = bytes_of(cas->dataLo) * (cas->dataHi ? 2 : 1);
   log_access(cas->addr, bytes, False, NULL);
   log_access(cas->addr, bytes, True, NULL);
}

static void log_llsc(const IRStmt *s)
{
   if (s->Ist.LLSC.storedata)
      log_access(s->Ist.LLSC.addr, bytes_of(s->Ist.LLSC.storedata), True, NULL);
   else
      log_access(s->Ist.LLSC.addr, sizeofIRType(typeOfIRTemp(b.out->tyenv, s->Ist.LLSC.result)),
                 False, NULL);
}

/* What a statement of the program's does to memory, logged just before the statement. */
static void log_statement(const IRStmt *s)
{
   switch (s->tag) {
   case Ist_IMark:
      b.instructions++;
      b.code = s->Ist.IMark.addr;
      break;
   case Ist_WrTmp:
      note_place(s->Ist.WrTmp.tmp, s->Ist.WrTmp.data);
      if (s->Ist.WrTmp.data->tag == Iex_Load)
         log_access(s->Ist.WrTmp.data->Iex.Load.addr, sizeofIRType(s->Ist.WrTmp.data->Iex.Load.ty),
                    False, NULL);
      break;
   case Ist_Store:
      log_access(s->Ist.Store.addr, bytes_of(s->Ist.Store.data), True, NULL);
      break;
   case Ist_LoadG:
      log_load_guarded(s->Ist.LoadG.details);
      break;
   case Ist_StoreG:
      log_access(s->Ist.StoreG.details->addr, bytes_of(s->Ist.StoreG.details->data), True,
                 s->Ist.StoreG.details->guard);
      break;
   case Ist_Dirty:
      log_helper(s->Ist.Dirty.details);
      break;
   case Ist_CAS:
      log_cas(s->Ist.CAS.details);
      break;
   case Ist_LLSC:
      log_llsc(s);
      break;
   case Ist_Exit:
      reach_exit();
      break;
   default: /* registers, fences, hints: no memory */
      break;
   }
}

IRSB *instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout,
                 const VexGuestExtents *extents, const VexArchInfo *host, IRType guest_word,
                 IRType host_word)
{
   IRSB *out = deepCopyIRSBExceptStmts(in);
   Int i = 0;
   tl_assert(guest_word == Ity_I64 && host_word == Ity_I64);
   begin(in, out);
   widen_begin();
   /* What comes before the first instruction (a check for modified code) stays as it is. */
   while (i < in->stmts_used && in->stmts[i]->tag != Ist_IMark)
      emit(in->stmts[i++]);
   objects_instrument_entry(out, closure->readdr);
   IRConst *share = enter();
   for (; i < in->stmts_used; i++) {
      IRStmt *s = in->stmts[i];
      log_statement(s);
      emit(widen(out, s));
      if (s->tag == Ist_Exit)
         begin_exit();
   }
   reach_exit();
   Bool loop = places_wanted() && python_is_loop(closure->readdr);
   finish(closure->nraddr, share);
   if (loop && python_runs() && out->jumpkind == Ijk_Boring && out->next->tag == Iex_RdTmp)
      replay_now();
   if (out->jumpkind == Ijk_Ret)
      objects_instrument_return(out, out->next);
   return out;
}

void instrument_discard(Addr start, VexGuestExtents extents)
{
   replay(); /* the log may still speak of these paths */
   note_unexamined();
   Paths *paths = VG_(HT_remove)(paths_by_block, start);
   if (paths)
      VG_(free)(paths);
}

void instrument_open(void)
{
   paths_by_block = VG_(HT_construct)("sweephand.paths");
}
