/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The log that instrumented code fills, and what describes its contents: shared by instrument.c,
 * which makes the code and the paths, and log.c, which replays the log.
 */
#ifndef LOG_H
#define LOG_H

#include "recorder.h"

enum {
   /* The log is emptied when it holds this much. The more often the two take turns, the better what
      the program loads can be fetched ahead; below 4 KiB that is lost in the turns. */
   FULL_WORDS = 512,
   BLOCK_WORDS = 1024, /* more than any superblock takes: 100 instructions of nine accesses */
};
#define NOT_MADE 0x8181818181818181ULL /* not a canonical address */

extern UWord block_log[FULL_WORDS + BLOCK_WORDS];
extern UWord *log_next; /* the next superblock's share begins here */

typedef struct {
   Int offset;   /* of the first byte, from the slot's value */
   UShort bytes;
   UShort write;
   Addr code; /* the instruction that makes it */
} Access;

/* Accesses that share a slot: their union from first to last byte, and one by one. */
typedef struct {
   Int offset;
   UShort span; /* from the first byte to the last one */
   UChar n_accesses;
   UChar write; /* one of them writes */
   const Access *accesses;
   UWord home;  /* a settled path: the values up to the next page's are on the same page */
} Slot;

/* How a superblock leaves that calls a function or returns from one (calls.c). */
typedef struct {
   enum { GOES_ON, CALLS, RETURNS } kind;
   UShort slot;      /* of the access to the return address */
   Int offset;       /* of the return address, from the slot's value */
   Addr code;        /* the call */
} Turn;

/* What a superblock has done when it leaves by one certain exit. Below the line: what is known of
   it while it is settled (see there). */
typedef struct Path {
   UInt n_slots;
   UInt words; /* of the log, for the superblock whatever its exit */
   UInt instructions;
   UInt references;
   /* ---- */
   ULong seen_epoch;    /* the last epoch in which it was taken step by step */
   ULong settled_epoch; /* the epoch in which it is settled */
   UWord first_page, last_page;
   UInt changes;        /* of page, from its first reference to its last */
   UInt made;           /* references, without those that a guard prevented */
   ULong latest;        /* the run in which it began when it last passed unexamined; 0: noted */
   Bool listed;         /* among the unexamined */
   Turn turn;
   struct Path *next_unexamined;
   Slot slots[];
} Path;

void calls_turn(const Turn *turn, const UWord *values);

#endif
