//! Test programs in memory that is too small for them, for every backend that pages privately: the
//! agent and the kernel under direction. Each program prints `right` if it found everything right.

/// One program under one policy, in little memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) memory: &'static str,
    pub(crate) policy: &'static str,
    /// Its name in `tests/programs`.
    pub(crate) program: &'static str,
    pub(crate) arguments: &'static [&'static str],
}

impl Case {
    /// The options of `run` that say how much memory there is, and under which policy.
    pub(crate) fn options(&self) -> [&'static str; 4] {
        ["--memory", self.memory, "--policy", self.policy]
    }
}

/// Cases of one program: memory, policy and arguments of each.
macro_rules! cases {
    ($program:literal: $($memory:literal $policy:literal $arguments:expr),+ $(,)?) => {
        &[$(Case { memory: $memory, policy: $policy, program: $program, arguments: &$arguments }),+]
    };
}

/// Asked for as huge pages; the policy chooses among small ones.
pub(crate) const HUGE_PAGES: &[Case] = cases!["churn": "24MiB" "clock" ["48", "4", "3", "huge"]];

/// Threads that come and go, and lose no write to an eviction.
pub(crate) const THREADS: &[Case] = cases!["threads":
    "16MiB" "clock" ["32", "4", "20000"],
    "16MiB" "clock-pro" ["32", "4", "20000"],
    "16MiB" "fifo" ["32", "4", "20000"],
];

/// Memory that is unmapped, dropped, moved and protected. Lifo-plus evicts what is newest, apr has
/// objects.
pub(crate) const CHANGES: &[Case] = cases!["changes":
    "16MiB" "clock-pro" ["32", "400", "1"],
    "16MiB" "clock" ["32", "400", "2"],
    "16MiB" "car" ["32", "400", "3"],
    "16MiB" "clock-pro" ["32", "400", "4"],
    "16MiB" "lifo-plus" ["32", "400", "6"],
    "16MiB" "apr" ["32", "400", "5"],
];

/// Threads that move memory. The last two have children, which have what was moved just before
/// they were made.
pub(crate) const MOVES: &[Case] = cases!["moves":
    "12MiB" "clock" ["16", "4", "500"],
    "12MiB" "clock-pro" ["16", "2", "500"],
    "12MiB" "lifo-plus" ["16", "4", "500"],
    "12MiB" "clock" ["16", "2", "300", "100"],
    "12MiB" "lifo-plus" ["16", "8", "300", "100"],
];

/// Parents and children with memory of their own.
pub(crate) const FORKS: &[Case] = cases!["forks":
    "24MiB" "clock" ["32", "3", "2"],
    "24MiB" "lifo-plus" ["32", "2", "1"],
];

/// Forks that wait for locks of the C library, whose holders may wait for pages.
pub(crate) const FORK_LOCKS: &[Case] = cases!["forklocks":
    "16MiB" "clock" ["32", "30"],
    "16MiB" "lifo-plus" ["32", "30"],
];

/// Handlers that return, that allocate, and that jump out of what they interrupt.
pub(crate) const SIGNALS: &[Case] = cases!["signals":
    "16MiB" "clock" ["32", "100", "20"],
    "16MiB" "clock-pro" ["32", "1000", "20"],
    "16MiB" "lifo-plus" ["32", "5000", "20"],
];

/// Threads and processes that end in unusual ways.
pub(crate) const ENDS: &[Case] = cases!["ends":
    "32MiB" "clock" ["48", "robust"],
    "32MiB" "clock" ["48", "leader"],
    "32MiB" "clock" ["48", "exec"],
    "32MiB" "clock" ["48", "children"],
    "32MiB" "clock" ["48", "spawn"],
    "32MiB" "clock" ["48", "cancelled"],
    "32MiB" "clock" ["48", "coroutines"],
];
