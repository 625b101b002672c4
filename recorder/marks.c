/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The marks that tell the reader how far the program is. */
#include "recorder.h"

enum { FLUSH_INTERVAL_MS = 200 };

static Totals at_last_mark;

/* So that a reader can show progress, and little is lost if we are killed. */
void flush_now_and_then(void)
{
   static UInt next_flush_ms; /* 0: flush at once, so that even a program killed soon has begun */
   UInt now_ms = VG_(read_millisecond_timer)();
   if (now_ms >= next_flush_ms) {
      next_flush_ms = now_ms + FLUSH_INTERVAL_MS;
      stream_flush();
   }
}

void mark(void)
{
   ULong operands[] = {totals.instructions - at_last_mark.instructions,
                       totals.references - at_last_mark.references};
   window_close_epoch();
   stream_control(OP_MARK, 2, operands);
   at_last_mark = totals;
   flush_now_and_then();
}

void marks_restart(void)
{
   VG_(memset)(&totals, 0, sizeof totals);
   at_last_mark = totals;
}
