/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sites: lines and functions of the program's code, each once, with its text for the stream. Many
 * instructions are of one line, so there are far fewer sites than addresses. Where no line is
 * known, a function is one site. Where no function is known either, an address is, and after the
 * first MOST_ADDRESSES 4 KiB of code: a large program has too many. Code that is in no file was
 * made by the program as it ran (an interpreter's templates, a JIT compiler's code). It has no
 * names and lies elsewhere in each run, so 4 KiB of it are one site from the first.
 *
 * An address is described once and then looked up. If a library goes, its addresses may become
 * those of another; Valgrind counts such changes (the epoch), and the table is kept for one of
 * them.
 */
#include "recorder.h"

#include "pub_tool_debuginfo.h"

enum {
   MAX_TEXT = 16 * 1024,
   FIRST_ROOM = 1 << 13,
   MOST = 1 << 20,       /* different sites */
   MOST_ADDRESSES = 1 << 14, /* of them, addresses without a name */
   TABLE_BITS = 18,
   TABLE = 1 << TABLE_BITS,
   FULL = TABLE / 4 * 3,
};

typedef struct {
   UWord key; /* the address, twice, plus whether the function is meant */
   UInt site;
} Known;

static Known *known;        /* of addresses */
static UInt n_known;
static UInt epoch_of_known;
static const HChar **texts; /* of sites */
static UInt *hashes;        /* of sites: that of the text that decides */
static UInt *by_text;       /* a table of sites by that hash, of 4 * ROOM entries */
static UInt room;           /* for sites */
static UInt n_sites = 1;    /* 0: there is no room for it */
static UInt n_addresses;    /* of them, addresses without a name */
static Bool lost;
static HChar text[MAX_TEXT];
static UInt used;

/* Makes room for twice as many sites. */
static void grow(void)
{
   room = room == 0 ? FIRST_ROOM : 2 * room;
   texts = VG_(realloc)("sweephand.sites", texts, room * sizeof *texts);
   hashes = VG_(realloc)("sweephand.sites", hashes, room * sizeof *hashes);
   VG_(free)(by_text);
   by_text = VG_(calloc)("sweephand.sites", 4 * room, sizeof *by_text);
   for (UInt site = 1; site < n_sites; site++) {
      UInt at = hashes[site] % (4 * room);
      while (by_text[at] != 0)
         at = (at + 1) % (4 * room);
      by_text[at] = site;
   }
}

void sites_open(void)
{
   known = VG_(calloc)("sweephand.sites", TABLE, sizeof *known);
   grow();
   texts[0] = "[too many places]\t\t0\n";
}

Bool sites_lost(void) { return lost; }

const HChar *site_text(UInt site) { return texts[site]; }

/* Code that has called main. */
Bool site_is_below_main(UInt site) { return VG_(strncmp)(texts[site], "(below main)", 12) == 0; }

/* Appends a line, or nothing if it is too long for what is left. */
static void put_line(const HChar *description, const HChar *module, ULong offset)
{
   SizeT n = VG_(strlen)(description) + VG_(strlen)(module) + 24;
   if (used + n < MAX_TEXT)
      used += VG_(sprintf)(text + used, "%s\t%s\t%llx\n", description, module, offset);
}

static UInt hash_of_text(UInt length)
{
   UInt hash = 2166136261u; /* FNV-1a */
   for (UInt i = 0; i < length; i++)
      hash = (hash ^ (UChar)text[i]) * 16777619u;
   return hash;
}

/* The place in the table for the site whose text has been put together, whether it is there yet or
   not. LENGTH of the text decides which one it is. */
static UInt *find(UInt length)
{
   UInt hash = hash_of_text(length), at = hash % (4 * room);
   while (by_text[at] != 0
          && (hashes[by_text[at]] != hash || VG_(strncmp)(texts[by_text[at]], text, length) != 0))
      at = (at + 1) % (4 * room);
   return &by_text[at];
}

/* The site with the text that has been put together. */
static UInt site_of_text(UInt length)
{
   UInt *site = find(length);
   if (*site != 0)
      return *site;
   if (n_sites == MOST) {
      lost = True;
      return 0;
   }
   *site = n_sites;
   hashes[n_sites] = hash_of_text(length);
   texts[n_sites] = VG_(strdup)("sweephand.sites", text);
   if (++n_sites == room && room < MOST)
      grow();
   return n_sites - 1;
}

/* The code at an address whose function is not known: the address, or the 4 KiB that it is in. */
static UInt describe_address(const HChar *description, const HChar *module, ULong offset)
{
   if (module[0] == 0)
      offset = VG_PGROUNDDN(offset);
   put_line(description, module, offset);
   if (module[0] != 0 && *find(used) == 0 && n_addresses++ >= MOST_ADDRESSES) {
      used = 0;
      put_line(description, module, VG_PGROUNDDN(offset));
   }
   return site_of_text(used);
}

/* The function with the code at IP, whatever its line. */
static UInt describe_function(DiEpoch epoch, Addr ip, const HChar *module, ULong offset)
{
   static HChar description[MAX_TEXT / 2];
   const HChar *name;
   Bool has_name = VG_(get_fnname)(epoch, ip, &name);
   const HChar *before = module[0] != 0 ? " (in " : "", *after = module[0] != 0 ? ")" : "";
   VG_(snprintf)(description, sizeof description, "%s%s%s%s", has_name ? name : "???", before, module,
                 after);
   if (!has_name)
      return describe_address(description, module, offset);
   put_line(description, module, offset);
   return site_of_text(VG_(strlen)(description) + 1);
}

/* The line of the code at IP: a line of text, and before it one for each function inlined there. */
static UInt describe_line(DiEpoch epoch, Addr ip, const HChar *module, ULong offset)
{
   const HChar *file;
   UInt line, decisive = 0;
   if (!VG_(get_filename_linenum)(epoch, ip, &file, NULL, &line))
      return describe_function(epoch, ip, module, offset);
   InlIPCursor *cursor = VG_(new_IIPC)(epoch, ip);
   do {
      /* "0x109146: step (relax.c:12)": the address differs from run to run. */
      const HChar *description = VG_(describe_IP)(epoch, ip, cursor);
      const HChar *rest = VG_(strstr)(description, ": ");
      rest = rest ? rest + 2 : description;
      UInt before = used;
      put_line(rest, module, offset);
      decisive = used > before ? before + VG_(strlen)(rest) + 1 : used;
   } while (VG_(next_IIPC)(cursor));
   VG_(delete_IIPC)(cursor);
   return site_of_text(decisive);
}

UInt site_of(Addr ip, Bool function)
{
   DiEpoch epoch = VG_(current_DiEpoch)();
   if (epoch.n != epoch_of_known || n_known == FULL) {
      VG_(memset)(known, 0, TABLE * sizeof *known);
      n_known = 0;
      epoch_of_known = epoch.n;
   }
   UWord key = ip << 1 | function;
   UInt at = (UInt)((key * 0x9E3779B97F4A7C15ULL) >> (64 - TABLE_BITS));
   for (; known[at].key != 0; at = (at + 1) % TABLE)
      if (known[at].key == key)
         return known[at].site;
   DebugInfo *object = VG_(find_DebugInfo)(epoch, ip);
   const HChar *module = object ? VG_(DebugInfo_get_filename)(object) : NULL;
   ULong offset = object ? ip - VG_(DebugInfo_get_text_bias)(object) : ip;
   used = 0;
   UInt site = (function ? describe_function : describe_line)(epoch, ip, module ? module : "", offset);
   known[at] = (Known){key, site};
   n_known++;
   return site;
}
