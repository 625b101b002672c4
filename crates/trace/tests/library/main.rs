//! Tests of reading, writing and importing, as one program: each would compile the readers' generic
//! code again. Tests that need other programs or the traces of others are programs of their own.

#[path = "../common/mod.rs"]
mod common;

mod columns;
mod damage;
mod formats;
mod irim;
mod members;
mod places;
mod reduce;
mod round_trip;
mod several;
