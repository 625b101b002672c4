//! Looks at processes from outside, advises the kernel about their memory, and limits it.
//!
//! | module | what it holds |
//! |---|---|
//! | `accessed` | which pages the processor has used: accessed bits, by a BPF program |
//! | `space` | an address space: the entries of its pages, advice about them |
//! | `family` | a process and those that it has started: threads, memory, faults, user time |
//! | `cgroup` | a memory cgroup around processes: its limit, and what the kernel counts in it |
//! | `usage` | what a program that has ended has used, and what a thread has |
//!
//! Nothing is loaded into a process, and it is not stopped.

pub mod accessed;
pub mod cgroup;
pub mod family;
pub mod space;
pub mod usage;
