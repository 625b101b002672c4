//! Logs that many hold: their columns under a name. Those with a mark of their own are found by
//! content.

use super::description::Columns;
use crate::lines::hexadecimal;

/// A log with a name.
#[derive(Clone, Copy, Debug)]
pub struct KnownLog {
    /// What stands for its columns.
    pub name: &'static str,
    /// Its columns, as [`Columns`] reads them.
    pub columns: &'static str,
    /// What it is, and where that is written.
    pub what: &'static str,
}

/// Logs with names.
pub const KNOWN: &[KnownLog] = &[
    KnownLog {
        name: "twitter",
        columns: "time=1,key=2,size=4,op=6,ttl=7",
        what: "requests to Twitter's caches (README of twitter/cache-trace)",
    },
    KnownLog {
        name: "tencent-block",
        columns: "time=1,offset=2*512,size=3*512,op=4:1,tenant=5",
        what: "requests to Tencent's block storage (README at SNIA IOTTA)",
    },
    KnownLog {
        name: "alibaba-block",
        columns: "tenant=1,op=2,offset=3,size=4,time=5/1000000",
        what: "requests to Alibaba's block storage (README of alibaba/block-traces)",
    },
    KnownLog {
        name: "systor",
        columns: "time=Timestamp,op=IOType,tenant=LUN,offset=Offset,size=Size",
        what: "requests to virtual desktops' disks, SYSTOR '17 (README at SNIA IOTTA)",
    },
    KnownLog {
        name: "rocksdb-block-cache",
        columns: "time=1/1000000,key=2,size=4",
        what: "block cache accesses that RocksDB's block_cache_trace_analyzer writes as text",
    },
    KnownLog {
        name: "vscsi-1",
        columns: "record=32,size=u32@4,op=u16@12:10|42|138|170,offset=u64@16*512,time=u64@24/1000000",
        what: "commands to virtual SCSI disks, as CloudPhysics has them, version 1 (libCacheSim, vscsi.h)",
    },
    KnownLog {
        name: "vscsi-2",
        columns: "record=40,op=u16@0:10|42|138|170,size=u32@8,offset=u64@16*512,time=u64@24/1000000",
        what: "the same, version 2",
    },
    KnownLog {
        name: "lcs-1",
        columns: "skip=8192,record=24,time=u32@0,key=u64@4,size=u32@12",
        what: "requests for objects, libCacheSim's format lcs, version 1 (libCacheSim, lcs.h)",
    },
    KnownLog {
        name: "lcs-2",
        columns: "skip=8192,record=28,time=u32@0,key=u64@4,size=u32@12",
        what: "the same, version 2",
    },
    KnownLog {
        name: "lcs-3",
        columns: "skip=8192,record=36,time=u32@0,key=u64@4,size=u64@12,ttl=u32@24",
        what: "the same, version 3",
    },
    KnownLog {
        name: "lcs-4",
        columns: "skip=8192,record=40,time=u32@0,key=u64@4,size=u64@12,ttl=u32@24",
        what: "the same, version 4",
    },
    KnownLog {
        name: "lcs-5",
        columns: "skip=8192,record=44,time=u32@0,key=u64@4,size=u64@12,ttl=u32@24",
        what: "the same, version 5",
    },
    KnownLog {
        name: "lcs-6",
        columns: "skip=8192,record=52,time=u32@0,key=u64@4,size=u64@12,ttl=u32@24",
        what: "the same, version 6",
    },
    KnownLog {
        name: "lcs-7",
        columns: "skip=8192,record=68,time=u32@0,key=u64@4,size=u64@12,ttl=u32@24",
        what: "the same, version 7",
    },
    KnownLog {
        name: "lcs-8",
        columns: "skip=8192,record=100,time=u32@0,key=u64@4,size=u64@12,ttl=u32@24",
        what: "the same, version 8",
    },
    KnownLog {
        name: "cachelib",
        columns: "key=key,op=op,size=size,count=op_count",
        what: "requests to caches, as CacheLib's CacheBench replays them (CacheLib, KVReplayGenerator.h)",
    },
    KnownLog {
        name: "cachelib-block",
        columns: "key=block_id,offset=io_offset,size=io_size,op=op_name:3|4|6|putChunk*,time=op_time",
        what: "requests to Meta's storage, as CacheLib's CacheBench replays them (BlockChunkReplayGenerator.h)",
    },
    KnownLog {
        name: "cachelib-cdn",
        columns: "time=timestamp,key=cacheKey,size=objectSize,ttl=TTL",
        what: "requests to Meta's CDN, 2023 on (CacheLib, list of CacheBench's traces)",
    },
    KnownLog {
        name: "ibm-cos",
        columns: "time=1/1000,op=2,key=3,size=4",
        what: "requests to IBM's object store (README at SNIA IOTTA, set 36305)",
    },
    KnownLog {
        name: "pinatrace",
        columns: "op=2,offset=3",
        what: "accesses of a program, as the tool pinatrace of Intel's Pin writes them",
    },
    KnownLog {
        name: "tectonic",
        columns: "key=1,offset=2,size=3,time=4,op=5:3|4|6",
        what: "requests to Meta's Tectonic, Baleen's traces (README at ftp.pdl.cmu.edu, Baleen24)",
    },
    KnownLog {
        name: "thesios",
        columns: "key=filename,offset=file_offset,size=request_io_size_bytes,op=op_type,time=start_time",
        what: "requests to Google's storage servers (README of google-research-datasets/thesios)",
    },
    KnownLog {
        name: "arc",
        columns: "offset=1*4096,size=2*4096",
        what: "ranges of blocks, as the authors of ARC have them (Megiddo and Modha, FAST 2003)",
    },
];

/// Columns that some of a log's files have and others lack, by its name.
const OPTIONAL: &[(&str, &str)] = &[
    ("cachelib", "time=op_time,ttl=ttl"),
    ("cachelib-block", "count=op_count,part=rs_shard_id"),
    // Of 2021 and 2023. A comment has the names of the columns.
    ("tectonic", "count=op_count,part=rs_shard_id"),
];

/// What an lcs file begins with.
const LCS: [u8; 8] = 0x1234_5678_9abc_def0u64.to_le_bytes();

/// The first line of a SYSTOR '17 log.
const SYSTOR: &[u8] = b"Timestamp,Response,IOType,LUN,Offset,Size";

/// Names of columns that only this log has together.
const NAMES: &[(&str, &[&[u8]])] = &[
    ("cachelib", &[b"key", b"op", b"size", b"op_count"]),
    ("cachelib-block", &[b"block_id", b"io_offset", b"io_size", b"op_time", b"op_name"]),
    ("cachelib-cdn", &[b"timestamp", b"cacheKey", b"OpType", b"objectSize", b"TTL"]),
    ("thesios", &[b"file_offset", b"request_io_size_bytes", b"simulated_latency"]),
];

/// Names in a comment before the first row of Baleen's traces.
const TECTONIC: [&[u8]; 5] = [b"block_id", b"io_offset", b"io_size", b"op_time", b"op_name"];

/// The length of a command to a virtual SCSI disk, where its version is, and the version's higher
/// byte, by log.
const VSCSI: [(usize, usize, u8, &str); 2] = [(32, 14, 1, "vscsi-1"), (40, 2, 2, "vscsi-2")];

/// Whether a line is an access as pinatrace writes it: `0x7f1c: W 0x7ffc`.
fn is_pinatrace(line: &[u8]) -> bool {
    let mut words = line.split(u8::is_ascii_whitespace);
    let (Some(code), Some(b"R" | b"W"), Some(data)) = (words.next(), words.next(), words.next()) else {
        return false;
    };
    let is_address = |word: &[u8]| word.strip_prefix(b"0x").and_then(hexadecimal).is_some();
    code.strip_suffix(b":").is_some_and(is_address) && is_address(data)
}

impl KnownLog {
    /// The log of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        KNOWN.iter().find(|log| log.name.eq_ignore_ascii_case(name.trim()))
    }

    /// The log that begins like this, if it has a mark.
    pub(crate) fn found(head: &[u8]) -> Option<&'static Self> {
        let at = |place: usize| -> Option<u64> {
            Some(u64::from_le_bytes(head.get(place..place + 8)?.try_into().expect("8 bytes")))
        };
        if head.starts_with(&LCS) {
            return Self::named(&format!("lcs-{}", at(8)?));
        }
        if head.get(..SYSTOR.len()).is_some_and(|head| head.eq_ignore_ascii_case(SYSTOR)) {
            return Self::named("systor");
        }
        let first_line = head.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
        let has = |name: &&[u8]| first_line.split(|byte| *byte == b',').any(|column| column == *name);
        if let Some((name, _)) = NAMES.iter().find(|(_, names)| names.iter().all(has)) {
            return Self::named(name);
        }
        let comments = head.split(|byte| *byte == b'\n').take_while(|line| line.starts_with(b"#"));
        let is_tectonic = |line: &[u8]| {
            let has = |name: &&[u8]| line[1..].split(u8::is_ascii_whitespace).any(|word| word == *name);
            TECTONIC.iter().all(has)
        };
        if comments.into_iter().any(is_tectonic) {
            return Self::named("tectonic");
        }
        if is_pinatrace(first_line) {
            return Self::named("pinatrace");
        }
        Self::vscsi(head)
    }

    /// Commands to a virtual SCSI disk have no mark at the beginning, but each has the version of
    /// its record. All commands of the head must agree, and there must be enough to be sure.
    fn vscsi(head: &[u8]) -> Option<&'static Self> {
        const LEAST_COMMANDS: usize = 8;
        let is = |(length, at, version, _): (usize, usize, u8, &str)| {
            let mut commands = head.chunks_exact(length);
            commands.len() >= LEAST_COMMANDS && commands.all(|command| command[at + 1] == version)
        };
        let (.., name) = VSCSI.into_iter().find(|log| is(*log))?;
        Self::named(name)
    }

    /// Its columns.
    pub fn columns(&self) -> Columns {
        let optional = OPTIONAL.iter().find(|(name, _)| *name == self.name).map_or("", |(_, text)| text);
        let columns: Result<Columns, _> = self.columns.parse();
        columns.and_then(|columns| columns.with_optional(optional)).expect("a test reads all of them")
    }
}
