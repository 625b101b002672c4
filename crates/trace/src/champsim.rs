//! ChampSim: the instructions that a program executed, as the simulator ChampSim takes them.
//!
//! A record is 64 bytes, little endian, without a header before or between:
//!
//! | bytes | what | |
//! |-------|------|-|
//! | 0..8 | address of the instruction | |
//! | 8, 9 | is a branch, is taken | 0 or 1 |
//! | 10..16 | registers | not kept |
//! | 16..32 | two addresses that are written | 0: none |
//! | 32..64 | four addresses that are read | 0: none |
//!
//! An instruction is a reference to its own page, then to the page of each address that it reads,
//! then of each that it writes. How many bytes it touches there the format does not say: one page
//! each. Pages have 4 KiB. It has no magic number and is never guessed; the two bytes about
//! branches tell other formats. (ChampSim, `inc/trace_instruction.h`, `input_instr`.)

use crate::accesses::Accesses;
use crate::bytes::ByteStream;
use crate::imported::{Imported, Progress};
use crate::lines::Refused;
use crate::{Error, Sink};

/// Bytes of a record.
const RECORD: usize = 64;

/// Where the addresses that are written begin, and those that are read.
const WRITTEN: usize = 16;
const READ: usize = 32;

/// Reads a stream into `sink`.
pub(crate) fn read(
    mut stream: ByteStream<'_>,
    sink: &mut impl Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, Error> {
    let mut accesses = Accesses::new(sink);
    let mut instruction = 0;
    loop {
        stream.fill_to(RECORD)?;
        let (records, rest) = stream.buffered().as_chunks::<RECORD>();
        let (taken, left) = (records.len() * RECORD, rest.len());
        for (index, record) in records.iter().enumerate() {
            let offset = stream.offset() + (index * RECORD) as u64;
            if record[8] > 1 || record[9] > 1 {
                let reason = "says neither yes nor no to being a branch: not ChampSim";
                return Err(Error::record(instruction, offset, reason));
            }
            execute(&mut accesses, record).map_err(|refused| match refused {
                Refused::Line(reason) => Error::record(instruction, offset, reason),
                Refused::Sink(error) => error,
            })?;
            instruction += 1;
        }
        stream.consume(taken);
        let (records, instructions) = accesses.counts();
        progress(Progress { bytes: stream.taken(), records, instructions });
        if stream.ended() {
            if left > 0 {
                return Err(Error::truncated(
                    stream.offset() + left as u64,
                    format!("inside record {instruction}"),
                ));
            }
            if stream.next_member()? {
                continue;
            }
            let page_size = accesses.page_size();
            let end = accesses.finish("a ChampSim trace")?;
            let source = "champsim";
            return Ok(Imported { end, page_size, source, instruction_fetches: true, ..Imported::default() });
        }
    }
}

fn execute<S: Sink>(accesses: &mut Accesses<'_, S>, record: &[u8; RECORD]) -> Result<(), Refused> {
    let (addresses, _) = record.as_chunks::<8>();
    let address = |place: usize| u64::from_le_bytes(addresses[place / 8]);
    accesses.instruction()?;
    accesses.access(address(0), 1, false)?;
    for place in (READ..RECORD).step_by(8).filter(|place| address(*place) != 0) {
        accesses.access(address(place), 1, false)?;
    }
    for place in (WRITTEN..READ).step_by(8).filter(|place| address(*place) != 0) {
        accesses.access(address(place), 1, true)?;
    }
    Ok(())
}
