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
];

/// What an lcs file begins with.
const LCS: [u8; 8] = 0x1234_5678_9abc_def0u64.to_le_bytes();

/// The first line of a SYSTOR '17 log.
const SYSTOR: &[u8] = b"Timestamp,Response,IOType,LUN,Offset,Size";

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
        None
    }

    /// Its columns.
    pub fn columns(&self) -> Columns {
        self.columns.parse().expect("a test reads all of them")
    }
}
