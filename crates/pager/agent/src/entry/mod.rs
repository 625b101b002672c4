//! How the program and the agent meet: the program starts the agent, calls it and forks, and the
//! agent's thread serves what it hears.
//!
//! The first files run on threads of the program. The agent's own thread begins in `agent_thread`.
//!
//! | file | what it holds |
//! |---|---|
//! | `start` | the way from the dynamic linker's call to a running agent |
//! | `interpose` | functions in place of the C library's that only programs call |
//! | `fork` | how a program's thread forks |
//! | `hooks` | functions in place of the C library's that the library calls itself |
//! | `agent_thread` | the agent's thread, and the place of its state |
//! | `agent` | the agent's loop |
//! | `polls` | whether to look for work before sleeping |
//! | `calls` | what the program's threads ask for |
//! | `locks` | memory that the program locks all at once |
//! | `hidden` | what the program sees of its threads in `/proc` |
//! | `self_mem` | what the program reads of its memory in `/proc` |

pub mod agent;
mod agent_thread;
mod calls;
pub mod fork;
mod hidden;
pub(crate) mod hooks;
pub mod interpose;
mod locks;
mod polls;
mod self_mem;
pub mod start;
