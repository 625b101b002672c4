//! Logs that many hold: their columns under a name. Those with a mark of their own are found by
//! content.

use super::description::Columns;

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

/// What an lcs file begins with.
const LCS: [u8; 8] = 0x1234_5678_9abc_def0u64.to_le_bytes();

/// The first line of a SYSTOR '17 log.
const SYSTOR: &[u8] = b"Timestamp,Response,IOType,LUN,Offset,Size";

/// How the first line of a log of CacheLib begins.
const CACHELIB: &[u8] = b"key,op,size,op_count";

/// Names of columns that only Thesios has together.
const THESIOS: [&[u8]; 3] = [b"file_offset", b"request_io_size_bytes", b"simulated_latency"];

/// The length of a command to a virtual SCSI disk, where its version is, and the version's higher
/// byte, by log.
const VSCSI: [(usize, usize, u8, &str); 2] = [(32, 14, 1, "vscsi-1"), (40, 2, 2, "vscsi-2")];

impl KnownLog {
    /// The log of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        KNOWN.iter().find(|log| log.name.eq_ignore_ascii_case(name))
    }

    /// The log that begins like this, if it has a mark.
    pub(crate) fn found(head: &[u8]) -> Option<&'static Self> {
        let at = |place: usize| -> Option<u64> {
            Some(u64::from_le_bytes(head.get(place..place + 8)?.try_into().expect("8 bytes")))
        };
        if head.starts_with(&LCS) {
            return Self::named(&format!("lcs-{}", at(8)?));
        }
        if head.starts_with(SYSTOR) {
            return Self::named("systor");
        }
        if head.starts_with(CACHELIB) {
            return Self::named("cachelib");
        }
        let first_line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let has = |name: &&[u8]| first_line.split(|byte| *byte == b',').any(|column| column == *name);
        if THESIOS.iter().all(has) {
            return Self::named("thesios");
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
        self.columns.parse().expect("a test reads all of them")
    }
}
