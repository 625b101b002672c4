// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sources of the recorder, a Valgrind tool in C, as data for the command that builds it.
//!
//! The sources are under GPL-2.0-or-later, as the tool is linked with Valgrind's core. This file is
//! under the licence of the rest of Sweephand.

/// Every file that `build.sh` needs, itself included, with its text.
pub const SOURCES: [(&str, &str); 21] = [
    ("build.sh", include_str!("../build.sh")),
    ("recorder.h", include_str!("../recorder.h")),
    ("log.h", include_str!("../log.h")),
    ("window.h", include_str!("../window.h")),
    ("main.c", include_str!("../main.c")),
    ("instrument.c", include_str!("../instrument.c")),
    ("widen.c", include_str!("../widen.c")),
    ("log.c", include_str!("../log.c")),
    ("marks.c", include_str!("../marks.c")),
    ("totals.c", include_str!("../totals.c")),
    ("window.c", include_str!("../window.c")),
    ("stream.c", include_str!("../stream.c")),
    ("memory.c", include_str!("../memory.c")),
    ("objects.c", include_str!("../objects.c")),
    ("places.c", include_str!("../places.c")),
    ("calls.c", include_str!("../calls.c")),
    ("contexts.c", include_str!("../contexts.c")),
    ("sites.c", include_str!("../sites.c")),
    ("small.c", include_str!("../small.c")),
    ("python.c", include_str!("../python.c")),
    ("follow.c", include_str!("../follow.c")),
];
