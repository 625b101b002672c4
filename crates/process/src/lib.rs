//! Looks at processes from outside, advises the kernel about their memory, and limits it.
//!
//! | module | what it holds |
//! |---|---|
//! | `file_uses` | which pages of files processes read and write: BPF programs in the kernel |
//! | `accessed` | which pages the processor has used: accessed bits, by a BPF program |
//! | `space` | an address space: the entries of its pages, advice about them |
//! | `maps` | the mappings of a process, with their names |
//! | `limit` | the limit of a running service's cgroup: lowered for some time, and put back |
//! | `limit_tidy` | the process that puts a limit back when the one that lowered it was killed |
//! | `group` | the processes of a service: a tree of them, a cgroup, a systemd unit, a container |
//! | `container_names` | the ids of containers by name, from the files of their engines |
//! | `family` | a process and those that it has started: threads, memory, faults, user time |
//! | `shared_memory` | shared memory of processes, with what none of them has mapped |
//! | `charge` | what a cgroup is charged for |
//! | `following_limit` | the limit of a run's cgroup: it follows what others take of a budget |
//! | `cgroup` | a memory cgroup around processes: its limit, and what the kernel counts in it |
//! | `zram` | a zram device for swap: what it takes and holds |
//! | `swap_area` | swap areas are switched on and off |
//! | `usage` | what a program that has ended has used, and what a thread has |
//! | `periodic` | a thread that does the same over and over |
//!
//! Nothing is loaded into a process. It waits only if it reaches the limit of its cgroup.

pub mod accessed;
pub mod cgroup;
pub mod charge;
mod container_names;
pub mod family;
pub mod file_uses;
pub mod following_limit;
pub mod group;
pub mod limit;
mod limit_tidy;
pub mod maps;
pub mod periodic;
pub mod shared_memory;
pub mod space;
pub mod swap_area;
pub mod usage;
pub mod zram;

/// The examples of README.md, which `cargo test --doc` compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
