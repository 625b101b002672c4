//! Decodes a trace some times over and does nothing with it: what every simulation pays at least.
//!
//!     cargo run --release -p sweephand-trace --example decode -- TRACE [ROUNDS]
//!
//! Prints the number of references decoded in all rounds. `lab/bench/throughput` measures the time.

use std::path::Path;
use sweephand_trace::{Chunk, Error, Trace};

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else {
        eprintln!("decode: which trace?");
        std::process::exit(2);
    };
    let rounds = arguments.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
    let trace = Trace::open(Path::new(&path))?;
    let mut chunk = Chunk::new();
    let mut references = 0;
    for _ in 0..rounds {
        for index in 0..trace.chunks() {
            trace.read_chunk(index, &mut chunk)?;
            references += chunk.references.len();
        }
    }
    println!("{references}");
    Ok(())
}
