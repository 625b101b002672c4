//! Reference strings from a rule and a seed.
//!
//! A [`Generator`] is an iterator of (page number, write). The same pattern, seed and number of
//! references give the same string on every machine. Randomness is SplitMix64, and `below(n)` is
//! the high 64 bits of a draw times n. Everything else is integers, or floating-point arithmetic
//! that IEEE 754 and the `libm` crate define exactly. Write flags come from a random stream of
//! their own, so asking for writes does not change the pages.
//!
//! A [`NamedPattern`] makes a [`Synthesis`] from text: the name of a pattern and values of its
//! parameters.

mod generator;
mod patterns;

pub use generator::{Generator, Invalid, Pattern, Synthesis, SynthesisError};
pub use patterns::{Kind, NamedPattern, PATTERNS, Parameter};
