//! The storage engine redb on a buffer pool whose eviction is a policy of `sweephand-policy`.
//!
//! redb asks a [`StorageBackend`] for its pages and can be told to cache none itself. [`Pooled`] is
//! such a backend: a [buffer pool](pool) in front of another backend. Nothing of redb is patched.
//!
//! ```
//! use redb::{Builder, ReadableDatabase, TableDefinition, backends::InMemoryBackend};
//! use redb_pool::Pooled;
//! use sweephand_policy::policies::ClockProStrict;
//!
//! let backend = Pooled::<ClockProStrict, _>::new(InMemoryBackend::new(), 64)?;
//! let database = Builder::new().set_cache_size(0).create_with_backend(backend)?;
//! const TABLE: TableDefinition<u64, u64> = TableDefinition::new("table");
//! let write = database.begin_write()?;
//! write.open_table(TABLE)?.insert(1, 2)?;
//! write.commit()?;
//! assert_eq!(database.begin_read()?.open_table(TABLE)?.get(1)?.unwrap().value(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Written pages stay in the pool until they are evicted or redb syncs. redb may lose any write
//! between two syncs, so that order is as good as the kernel's.

pub mod pool;

use std::fmt;
use std::io;
use std::ops::Bound;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use redb::{BackendError, StorageBackend};
use sweephand_policy::registry::Registered;
use sweephand_policy::{Arguments, PageId};

use pool::{BufferPool, MAX_PAGES, PAGE_BYTES, Page, Storage};

/// A backend behind a buffer pool of `frames` frames under the policy `P`.
pub struct Pooled<P, B> {
    pool: BufferPool<P, Pages<B>>,
    /// Changes of the length, one at a time.
    resize: Mutex<()>,
}

/// A backend, page by page.
struct Pages<B> {
    backend: B,
    /// What redb takes for the length. Bytes behind it do not exist.
    length: AtomicU64,
}

impl<B: StorageBackend> Pages<B> {
    /// Where a page begins, and how much of it exists.
    fn place(&self, page: PageId) -> (u64, usize) {
        let offset = page.index() as u64 * PAGE_BYTES as u64;
        let there = self.length.load(Ordering::Acquire).saturating_sub(offset);
        (offset, usize::try_from(there).unwrap_or(PAGE_BYTES).min(PAGE_BYTES))
    }
}

impl<B: StorageBackend> Storage for Pages<B> {
    fn read(&self, page: PageId, into: &mut Page) -> io::Result<()> {
        let (offset, there) = self.place(page);
        into[there..].fill(0);
        if there > 0 { self.backend.read(offset, &mut into[..there]) } else { Ok(()) }
    }
    fn write(&self, page: PageId, from: &Page) -> io::Result<()> {
        let (offset, there) = self.place(page);
        if there > 0 { self.backend.write(offset, &from[..there]) } else { Ok(()) }
    }
}

impl<P: Registered, B: StorageBackend> Pooled<P, B> {
    /// Puts a pool of `frames` pages in front of a backend.
    pub fn new(backend: B, frames: u32) -> io::Result<Self> {
        let defaults = Arguments::parse(&P::INFO, "").expect("no arguments are right");
        let policy = P::configure(frames as usize, &defaults).expect("defaults are right");
        let length = AtomicU64::new(backend.len()?);
        let pool = BufferPool::new(policy, frames, Pages { backend, length });
        Ok(Self { pool, resize: Mutex::new(()) })
    }

    /// Hits take the lock of faults, whatever the policy: to measure what that costs.
    #[must_use]
    pub fn with_locked_hits(self) -> Self {
        Self { pool: self.pool.with_locked_hits(), ..self }
    }

    fn backend(&self) -> &B {
        &self.pool.storage().backend
    }

    /// Calls `each` for the pages of a range of bytes: page, where in it, how much, how far in the
    /// range.
    fn pages(
        &self,
        offset: u64,
        length: usize,
        mut each: impl FnMut(PageId, usize, usize, usize) -> io::Result<()>,
    ) -> io::Result<()> {
        let end = offset.checked_add(length as u64);
        if end.is_none_or(|end| end > self.pool.storage().length.load(Ordering::Acquire)) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "behind the end of the storage"));
        }
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let page = u32::try_from(at / PAGE_BYTES as u64)
                .ok()
                .filter(|page| (*page as usize) < MAX_PAGES)
                .ok_or_else(|| io::Error::new(io::ErrorKind::FileTooLarge, "a database beyond 256 GiB"))?;
            let inside = (at % PAGE_BYTES as u64) as usize;
            let bytes = (PAGE_BYTES - inside).min(length - done);
            each(PageId(page), inside, bytes, done)?;
            done += bytes;
        }
        Ok(())
    }
}

impl<P, B: fmt::Debug> fmt::Debug for Pooled<P, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pooled").field("backend", &self.pool.storage().backend).finish_non_exhaustive()
    }
}

impl<P: Registered + Send + 'static, B: StorageBackend> StorageBackend for Pooled<P, B> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.pool.storage().length.load(Ordering::Acquire))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.pages(offset, out.len(), |page, inside, bytes, done| {
            let pinned = self.pool.page(page)?;
            out[done..done + bytes].copy_from_slice(&pinned.read()[inside..inside + bytes]);
            Ok(())
        })
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let _one = self.resize.lock().expect("no thread has panicked while it changed the length");
        let before = self.len()?;
        if length < before {
            // What is cut off reads as zeros if the storage grows again.
            let rest = length.next_multiple_of(PAGE_BYTES as u64).min(before);
            if rest > length {
                self.write(length, &vec![0; (rest - length) as usize])?;
            }
            self.pool.storage().length.store(length, Ordering::Release);
            self.pool.discard_from(PageId(length.div_ceil(PAGE_BYTES as u64) as u32));
        }
        self.backend().set_len(length)?;
        self.pool.storage().length.store(length, Ordering::Release);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.pool.flush()?;
        self.backend().sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.pages(offset, data.len(), |page, inside, bytes, done| {
            let whole = bytes == PAGE_BYTES;
            let pinned = if whole { self.pool.page_to_overwrite(page)? } else { self.pool.page(page)? };
            pinned.write()[inside..inside + bytes].copy_from_slice(&data[done..done + bytes]);
            Ok(())
        })
    }

    fn close(&self) -> io::Result<()> {
        self.pool.flush()?;
        self.backend().close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.backend().try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.backend().try_lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.backend().unlock_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.backend().lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.backend().lock_shared_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.backend().query_lock_range(start, end)
    }
}
