//! The agent as a guest in the program's process: its own memory, limits, rights and files, what
//! the kernel lists of the process, and the process's end.
//!
//! | file | what it holds |
//! |---|---|
//! | `environment` | the environment of programs that are begun |
//! | `credentials` | the program's rights |
//! | `outlive` | processes that share the program's memory |
//! | `last_thread` | the end of a process |
//! | `supervisor` | the command, as a process that begins sees it |
//! | `cgroup` | the memory cgroup |
//! | `maps` | mappings, as the kernel lists them |
//! | `own` | the pager's own memory |
//! | `moves` | how many pages the kernel has moved |
//! | `pagemap` | which pages the kernel lists as present |
//! | `failure` | the end with a message |
//! | `roots` | where the agent opens files |
//! | `wait` | waiting for descriptors |
//! | `rlimits` | the program's resource limits |

pub(crate) mod cgroup;
pub mod credentials;
pub(crate) mod environment;
pub mod failure;
pub(crate) mod last_thread;
pub mod maps;
pub(crate) mod moves;
pub(crate) mod outlive;
pub mod own;
pub(crate) mod pagemap;
pub mod rlimits;
pub(crate) mod roots;
pub(crate) mod supervisor;
pub(crate) mod wait;
