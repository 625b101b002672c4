//! Lackey: what Valgrind's example tool prints with `--tool=lackey --trace-mem=yes`.
//!
//! ```text
//! ==17096== Command: /bin/true
//! I  0401ab70,3        an instruction: hexadecimal address, length
//!  L 1fff000750,8      a load
//!  S 1fff000758,8      a store
//!  M 04222c80,4        a load and a store of the same bytes
//! ```
//!
//! Fetches of instructions are references too (reads), as the file has them; `grep -v '^I'` leaves
//! them out. `M` is a read and a write. An access across the end of a page touches both pages.
//! Instructions are counted. Lines of Valgrind's own (`==`, `--`) are skipped, but for the command;
//! anything else is an error: what the program prints must go elsewhere
//! (`valgrind --log-file=FILE`). Allocations and unmaps the file does not tell; pages are taken to
//! be of 4 KiB. (Valgrind 3.19, `lackey/lk_main.c`.)

use crate::accesses::Accesses;
use crate::bytes::ByteStream;
use crate::imported::{Imported, Progress};
use crate::lines::{self, Lines, Refused};
use crate::{Error, Sink};

struct Lackey<'a, S> {
    accesses: Accesses<'a, S>,
    /// The file name of the command; empty until it has been read.
    program: String,
}

/// Whether a stream begins like this.
pub(crate) fn is(head: &[u8]) -> bool {
    let valgrind = head.strip_prefix(b"==").and_then(|rest| rest.first());
    let first_line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    valgrind.is_some_and(u8::is_ascii_digit) || matches!(access(first_line.trim_ascii()), Ok(Some(_)))
}

/// The kind of an access, its address and its length. None for what is skipped.
fn access(line: &[u8]) -> Result<Option<(u8, u64, u64)>, &'static str> {
    let (kind, rest) = match line {
        [kind, b' ', rest @ ..] => (*kind, rest),
        [] | [b'-', b'-', ..] => return Ok(None),
        _ => return Err("not an access as lackey prints it"),
    };
    let (address, length) = split(rest.trim_ascii()).ok_or("not an address and a length")?;
    if !matches!(kind, b'I' | b'L' | b'S' | b'M') {
        return Err("not I, L, S or M");
    }
    Ok(Some((kind, address, length)))
}

/// Reads a stream into `sink`.
pub(crate) fn read(
    stream: ByteStream<'_>,
    sink: &mut impl Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, Error> {
    let mut lackey = Lackey { accesses: Accesses::new(sink), program: String::new() };
    lines::read(stream, &mut lackey, progress)?;
    let Lackey { accesses, program } = lackey;
    let page_size = accesses.page_size();
    let end = accesses.finish("a lackey trace")?;
    Ok(Imported {
        end,
        program,
        page_size,
        instruction_fetches: true,
        source: "lackey",
        ..Imported::default()
    })
}

impl<S: Sink> Lines for Lackey<'_, S> {
    fn line(&mut self, line: &[u8]) -> Result<(), Refused> {
        let line = line.trim_ascii();
        if line.starts_with(b"==") {
            return self.talk(line);
        }
        let Some((kind, address, length)) = access(line)? else { return Ok(()) };
        if kind == b'I' {
            self.accesses.access(address, length, false)?;
            return Ok(self.accesses.instruction()?);
        }
        if kind != b'S' {
            self.accesses.access(address, length, false)?;
        }
        if kind == b'S' || kind == b'M' {
            self.accesses.access(address, length, true)?;
        }
        Ok(())
    }

    fn counts(&self) -> (u64, u64) {
        self.accesses.counts()
    }
}

impl<S: Sink> Lackey<'_, S> {
    /// What Valgrind says, such as which command it runs.
    fn talk(&mut self, line: &[u8]) -> Result<(), Refused> {
        let said = String::from_utf8_lossy(line);
        if let Some((_, command)) = said.split_once("== Command: ")
            && self.program.is_empty()
        {
            let path = command.split_whitespace().next().unwrap_or_default();
            path.rsplit('/').next().unwrap_or_default().clone_into(&mut self.program);
        }
        Ok(())
    }
}

/// Address and length; no program loads 64 KiB at once.
fn split(access: &[u8]) -> Option<(u64, u64)> {
    let comma = access.iter().position(|byte| *byte == b',')?;
    let length = lines::decimal(&access[comma + 1..]).filter(|length| *length < 1 << 16)?;
    Some((lines::hexadecimal(&access[..comma])?, length))
}
