//! What the watcher tells the process that writes the trace, through a pipe. A message is a line of
//! JSON. Behind those of an epoch and of touches come the pages: 8 bytes each, the number shifted
//! left by one bit, which is set if the page is dirty or, of a touch, if that was a write.
//!
//! The stream can end anywhere. A message that is not complete is not acted upon.

use crate::look::UsedPage;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read, Write};
use std::ops::Range;
use sweephand_trace::contents::Contents;

/// A message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    /// What the trace says of the program.
    Begin { program: String, command: Vec<String> },
    /// A mapping appeared, or has another length now.
    Mapped { address: u64, bytes: u64 },
    /// The mapping that began here is gone.
    Unmapped { address: u64 },
    /// The contents of pages are gone.
    Dropped { first_page: u64, pages: u64 },
    /// The pages of the sample that were used in an epoch of `ns` nanoseconds follow.
    Epoch { pages: usize, one_page_in: u64, ns: u64 },
    /// A recording of the program begins. The last one of a process is kept.
    BeginRecording { program: String, command: Vec<String> },
    /// The pages that were touched follow, in this order. The write flag of each says what the
    /// touch was.
    Touched { pages: usize },
    /// The epoch of a recording is over. It took `ns` nanoseconds.
    EpochEnded { ns: u64 },
    /// Pages were moved.
    Moved { from: u64, to: u64, pages: u64 },
    /// What pages contained so far. The last one is kept.
    Contents(Contents),
    /// Something that a reader of the trace should know.
    Note(String),
    /// The watch is over. How, if there is something to say, and whether the program has ended.
    End { words: String, complete: bool },
}

/// The watcher's end of the pipe.
#[derive(Debug)]
pub struct TraceSender<W: Write> {
    out: W,
}

impl<W: Write> TraceSender<W> {
    /// Begins a trace.
    pub fn begin(out: W, program: &str, command: &[String]) -> io::Result<Self> {
        let mut sender = Self { out };
        sender.send(&Message::Begin { program: program.to_string(), command: command.to_vec() })?;
        Ok(sender)
    }

    fn send(&mut self, message: &Message) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.out.write_all(&line)
    }

    /// A mapping appeared, or has another length now.
    pub fn mapped(&mut self, address: u64, bytes: u64) -> io::Result<()> {
        self.send(&Message::Mapped { address, bytes })
    }

    /// The mapping that began at an address is gone.
    pub fn unmapped(&mut self, address: u64) -> io::Result<()> {
        self.send(&Message::Unmapped { address })
    }

    /// The contents of pages are gone.
    pub fn dropped(&mut self, pages: &Range<u64>) -> io::Result<()> {
        self.send(&Message::Dropped { first_page: pages.start, pages: pages.end - pages.start })
    }

    /// The pages used in an epoch, ascending. The watcher looked at one page in `one_page_in`.
    pub fn epoch(&mut self, pages: &[UsedPage], one_page_in: u64, ns: u64) -> io::Result<()> {
        self.send(&Message::Epoch { pages: pages.len(), one_page_in, ns })?;
        self.out.write_all(&bytes_of(pages))?;
        self.out.flush()
    }

    /// A recording begins: of the program that a process is now. What was told before is forgotten.
    pub fn begin_recording(out: W, program: &str, command: &[String]) -> io::Result<Self> {
        let mut sender = Self { out };
        sender.restart(program, command)?;
        Ok(sender)
    }

    /// The process has become another program, which alone is in the trace.
    pub fn restart(&mut self, program: &str, command: &[String]) -> io::Result<()> {
        self.send(&Message::BeginRecording { program: program.to_string(), command: command.to_vec() })
    }

    /// Pages were touched, in this order.
    pub fn touched(&mut self, pages: &[UsedPage]) -> io::Result<()> {
        self.send(&Message::Touched { pages: pages.len() })?;
        self.out.write_all(&bytes_of(pages))
    }

    /// The epoch of a recording is over. It took `ns` nanoseconds.
    pub fn epoch_ended(&mut self, ns: u64) -> io::Result<()> {
        self.send(&Message::EpochEnded { ns })?;
        self.out.flush()
    }

    /// Pages were moved: page numbers.
    pub fn moved(&mut self, from: u64, to: u64, pages: u64) -> io::Result<()> {
        self.send(&Message::Moved { from, to, pages })
    }

    /// What pages contained so far.
    pub fn contents(&mut self, contents: Contents) -> io::Result<()> {
        self.send(&Message::Contents(contents))
    }

    /// Something that a reader of the trace should know.
    pub fn note(&mut self, words: &str) -> io::Result<()> {
        self.send(&Message::Note(words.to_string()))
    }

    /// The watch is over.
    pub fn end(mut self, words: &str, complete: bool) -> io::Result<()> {
        self.send(&Message::End { words: words.to_string(), complete })?;
        self.out.flush()
    }
}

fn bytes_of(pages: &[UsedPage]) -> Vec<u8> {
    let bytes = |page: &UsedPage| (page.number << 1 | u64::from(page.dirty)).to_le_bytes();
    pages.iter().flat_map(bytes).collect()
}

/// The next message, with the pages of an epoch. `None`: the stream ends here.
pub(crate) fn next(from: &mut impl BufRead) -> io::Result<Option<(Message, Vec<UsedPage>)>> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Ok(None);
    }
    let message: Message = serde_json::from_str(&line)?;
    let mut pages = Vec::new();
    if let Message::Epoch { pages: count, .. } | Message::Touched { pages: count } = message {
        let mut bytes = Vec::new();
        from.take(8 * count as u64).read_to_end(&mut bytes)?;
        if bytes.len() < 8 * count {
            return Ok(None);
        }
        let page = |&bytes: &[u8; 8]| {
            let word = u64::from_le_bytes(bytes);
            UsedPage { number: word >> 1, dirty: word & 1 != 0 }
        };
        pages = bytes.as_chunks().0.iter().map(page).collect();
    }
    Ok(Some((message, pages)))
}
