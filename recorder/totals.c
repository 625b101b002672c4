/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is counted, and whether. */
#include "recorder.h"

Totals totals;
Bool recording = True;
