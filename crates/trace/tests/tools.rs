//! What other tools print here, now: fio, blkparse and perf, where they are installed (Debian's
//! `fio`, `blktrace`, `linux-perf`). A line says which are missing.

mod common;

use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use common::decoded;
use sweephand_checks::{Need, skip};
use sweephand_trace::columns::Columns;
use sweephand_trace::{Chunk, Event, Header, ImportOptions, Metadata, Trace, Writer, import};

/// What a command prints, or `None` if it is not there.
fn printed(command: &mut Command) -> Option<Vec<u8>> {
    let Ok(output) = command.output() else {
        skip(Need::Program, command.get_program().display());
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    Some(output.stdout)
}

fn imported(input: &[u8], columns: Option<&str>) -> (Trace, Header) {
    let mut writer = Writer::new(Cursor::new(Vec::new()), Metadata::default()).unwrap();
    let columns = columns.map(|columns| columns.parse::<Columns>().unwrap());
    let options = ImportOptions { columns, ..ImportOptions::default() };
    let end = import(input, &mut writer, &options, &mut |_| {}).unwrap();
    let (out, header) = writer.finish(end).unwrap();
    (Trace::from_bytes(out.into_inner()).unwrap(), header)
}

/// Pages with their write flags, in order.
fn references(trace: &Trace) -> Vec<(u64, bool)> {
    let (mut chunk, mut numbers, mut references) = (Chunk::new(), Vec::new(), Vec::new());
    for index in 0..trace.chunks() {
        trace.read_chunk(index, &mut chunk).unwrap();
        numbers.extend_from_slice(&chunk.new_pages);
        references.extend(chunk.references.iter().map(|r| (numbers[r.page() as usize], r.is_write())));
    }
    references
}

/// fio writes each block of a file once, in a random order.
#[test]
fn fio_writes_iologs() {
    let folder = tempfile::tempdir().unwrap();
    let mut fio = Command::new("fio");
    fio.current_dir(&folder).args(["--name=job", "--ioengine=null", "--filename=file", "--size=1m"]);
    fio.args(["--rw=randwrite", "--bs=8k", "--write_iolog=job.iolog"]);
    if printed(&mut fio).is_none() {
        return;
    }
    let log = fs::read(folder.path().join("job.iolog")).unwrap();
    let (trace, header) = imported(&log, None);
    let mut references = references(&trace);
    assert_eq!(header.metadata.source, "fio");
    assert!(references.chunks(2).all(|block| block[0].0 + 1 == block[1].0));
    assert!(!references.is_sorted());
    references.sort_unstable();
    assert_eq!(references, (0..256).map(|page| (page, true)).collect::<Vec<_>>());
}

/// A record of blktrace: `struct blk_io_trace` of Linux, `blktrace_api.h`.
fn event(number: u32, sector: u64, bytes: u32, action: u32, device: u32) -> Vec<u8> {
    let mut record = (0x6561_7400u32 | 7).to_le_bytes().to_vec();
    record.extend(number.to_le_bytes());
    record.extend((u64::from(number) * 1000).to_le_bytes());
    record.extend(sector.to_le_bytes());
    record.extend([bytes, action, 697, device, 0, 0].map(u32::to_le_bytes).as_flattened());
    record
}

/// blktrace needs a kernel that lets it trace; blkparse prints what it is given.
#[test]
fn blkparse_prints_requests() {
    let (read, write, queue, issue, complete, discard) =
        (1 << 16, 2 << 16, 16 << 16 | 1, 64 << 16 | 7, 128 << 16 | 8, 8192 << 16);
    let (sda, sdb) = (8 << 20, 8 << 20 | 16);
    let records = [
        event(1, 800, 4096, write | queue, sda),
        event(2, 800, 4096, write | issue, sda),
        event(3, 808, 8192, read | queue, sda),
        event(4, 808, 8192, read | issue, sda),
        event(5, 800, 4096, write | complete, sda),
        event(6, 808, 8192, read | complete, sda),
        event(7, 800, 4096, discard | queue, sda),
        event(8, 16, 512, read | queue, sdb),
        event(9, 800, 4096, read | queue, sda),
    ];
    let Ok(mut blkparse) =
        Command::new("blkparse").args(["-i", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    else {
        return skip(Need::Program, "blkparse");
    };
    blkparse.stdin.take().unwrap().write_all(&records.concat()).unwrap();
    let output = blkparse.wait_with_output().unwrap();
    assert!(output.status.success());
    let (trace, header) = imported(&output.stdout, None);
    let disk = 1 << 40;
    assert_eq!(
        references(&trace),
        [(100, true), (101, false), (102, false), (disk + 2, false), (100, false)]
    );
    assert_eq!(header.metadata.source, "blkparse");
    assert_eq!(header.metadata.notes, ["requests as they were queued"]);
    let discard = (3, Event::Drop { pages: 0..1 });
    assert_eq!(decoded(&trace).1, [discard]);
}

/// perf records each page fault with its address. The shell reads pages into memory that it has
/// just mapped, so there are some whatever it does.
#[test]
fn perf_prints_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("perf.data");
    let mut record = Command::new("perf");
    record.args(["record", "-q", "-e", "page-faults:u", "-c", "1", "-d", "-o"]).arg(&data);
    record.args(["--", "/bin/sh", "-c", "exit 0"]);
    if !may_use_perf() || printed(&mut record).is_none() {
        return skip(Need::Machine, "perf is missing or may not record");
    }
    let script =
        |fields: &str| printed(Command::new("perf").args(["script", "-F", fields, "-i"]).arg(&data)).unwrap();
    let addresses = String::from_utf8(script("addr")).unwrap();
    let pages: Vec<_> =
        addresses.lines().map(|line| (u64::from_str_radix(line.trim(), 16).unwrap() >> 12, false)).collect();
    assert!(pages.len() > 20, "{}", pages.len());
    // As the book's filter makes it.
    let filtered: String = addresses.lines().map(|line| format!("0x{}\n", line.trim())).collect();
    let (trace, _) = imported(filtered.as_bytes(), Some("offset=1"));
    assert_eq!(references(&trace), pages);
}

/// Whether this process may record events of the programs that it starts.
fn may_use_perf() -> bool {
    let level = fs::read_to_string(Path::new("/proc/sys/kernel/perf_event_paranoid")).unwrap_or_default();
    level.trim().parse::<i32>().is_ok_and(|level| level <= 2)
}
