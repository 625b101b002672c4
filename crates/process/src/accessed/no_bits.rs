//! Why there are no accessed bits.

use std::io;

/// Why there are no accessed bits to be had.
#[derive(Debug, thiserror::Error)]
pub enum NoBits {
    /// The kernel's description of its own types.
    #[error("/sys/kernel/btf/vmlinux: {0}")]
    Types(String),
    /// A BPF program.
    #[error("BPF program: {0}")]
    Program(io::Error),
    /// A BPF program that runs at a tracepoint.
    #[error("BPF program at the tracepoint {0}: {1}")]
    Attached(String, io::Error),
    /// Page tables are not where they are expected.
    #[error("{0}")]
    Layout(&'static str),
}
