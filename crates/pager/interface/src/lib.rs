//! What the `sweephand` command and the live pager's agent have in common. The command and the
//! agent are built apart: the agent is a library without std that runs inside the program. This
//! crate is all that either has to know of the other.
//!
//! | file | what it holds |
//! |---|---|
//! | `accessed` | how an agent asks for accessed bits |
//! | `control` | the block of shared memory: what the command asks for, what the agent counts |
//! | `lease` | the messages by which the command lends frames to several programs |
//! | `spec` | which policies run live, and a policy as the user typed it |
//! | `division` | how a process's memory is divided between the pager and the program |
//! | `memory` | how much memory a live run has to be given |
//! | `recording` | the records of a live recording, and the files that they come in |
//! | `readahead`, `readaround` | windows read along streams; windows read around single faults |
//! | `numbered` | enumerations whose members travel as numbers |
//! | `slots` | which slots of a backing store are in use, and which are handed out next |
#![no_std]
#![cfg(target_os = "linux")]

extern crate alloc;

pub mod accessed;
pub mod control;
pub mod division;
pub mod lease;
pub mod memory;
mod numbered;
pub mod readahead;
pub mod readaround;
pub mod recording;
pub mod slots;
pub mod spec;
