//! What a cgroup is charged for, of any version.

use crate::cgroup::field;
use std::fs;
use std::path::Path;

/// A limit as a file has it. `None`: there is none. Version 1 has the largest number of whole pages
/// for that.
pub(crate) fn limit(text: &str) -> Option<u64> {
    const NO_LIMIT: u64 = 1 << 62;
    text.parse().ok().filter(|&bytes| bytes < NO_LIMIT)
}

/// The bytes of cached files in a `memory.stat`, with the cgroups below it, and without shared
/// memory. `None`: there is no such count.
pub(crate) fn file_bytes(stat: &str) -> Option<u64> {
    // In version 1, names without `total_` are of the cgroup alone.
    let [cached, shared] = [["total_cache", "total_shmem"], ["file", "shmem"]]
        .into_iter()
        .find_map(|names| Some([field(stat, names[0])?, field(stat, names[1])?]))?;
    Some(cached.saturating_sub(shared))
}

/// What a cgroup is charged for, with those below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Charge {
    /// Whether it is of version 1, which has no `memory.high`.
    pub is_v1: bool,
    /// All of it, in bytes.
    pub all_bytes: u64,
    /// Page tables, stacks in the kernel, network buffers and the like.
    pub kernel_bytes: u64,
    /// Cached files, mapped or not, without shared memory. `None`: the kernel does not say.
    pub file_bytes: Option<u64>,
    /// Pages of files that were not used for some time, by the kernel's lists: they go first.
    pub inactive_file_bytes: u64,
    /// The limit, if there is one: the lower of `memory.high` and `memory.max` in version 2.
    pub limit_bytes: Option<u64>,
}

impl Charge {
    /// That of a cgroup now. `None`: it is gone, or has no memory controller.
    pub fn of(cgroup: &Path) -> Option<Self> {
        let read = |name: &str| fs::read_to_string(cgroup.join(name)).ok();
        let number = |name: &str| limit(read(name)?.trim());
        let stat = read("memory.stat")?;
        let count = |name: &str| field(&stat, name).unwrap_or_default();
        if let Some(all_bytes) = number("memory.current") {
            const PARTS: [&str; 5] = ["kernel_stack", "pagetables", "percpu", "vmalloc", "slab"];
            let parts = || PARTS.into_iter().map(count).sum();
            let kernel_bytes = field(&stat, "kernel").unwrap_or_else(parts) + count("sock");
            return Some(Self {
                is_v1: false,
                all_bytes,
                kernel_bytes,
                file_bytes: file_bytes(&stat),
                inactive_file_bytes: count("inactive_file"),
                limit_bytes: ["memory.high", "memory.max"].into_iter().filter_map(number).min(),
            });
        }
        let all_bytes = number("memory.usage_in_bytes")?;
        let pages = count("total_cache") + count("total_rss");
        Some(Self {
            is_v1: true,
            all_bytes,
            kernel_bytes: number("memory.kmem.usage_in_bytes")
                .unwrap_or_else(|| all_bytes.saturating_sub(pages)),
            file_bytes: file_bytes(&stat),
            inactive_file_bytes: count("total_inactive_file"),
            limit_bytes: number("memory.limit_in_bytes"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charge(files: &[(&str, &str)]) -> Option<Charge> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        Charge::of(folder.path())
    }

    #[test]
    fn both_versions_are_read() {
        let stat = "anon 500\nfile 300\nshmem 20\nkernel 70\nsock 5\ninactive_file 40\n";
        let files = [
            ("memory.current", "900\n"),
            ("memory.high", "max\n"),
            ("memory.max", "1000\n"),
            ("memory.stat", stat),
        ];
        let expected = Charge {
            is_v1: false,
            all_bytes: 900,
            kernel_bytes: 75,
            file_bytes: Some(280),
            inactive_file_bytes: 40,
            limit_bytes: Some(1000),
        };
        assert_eq!(charge(&files), Some(expected));
        // Before Linux 5.18, the kernel's part is told in pieces.
        let older = stat.replace("kernel 70", "kernel_stack 10\npagetables 20\nslab 25");
        let files = [("memory.current", "900"), ("memory.high", "800"), ("memory.stat", older.as_str())];
        assert_eq!(charge(&files), Some(Charge { kernel_bytes: 60, limit_bytes: Some(800), ..expected }));
        let stat = "cache 1\nrss 2\ntotal_cache 300\ntotal_rss 500\ntotal_inactive_file 40\n";
        let mut files = vec![
            ("memory.usage_in_bytes", "900\n"),
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory.stat", stat),
        ];
        let expected =
            Charge { is_v1: true, kernel_bytes: 100, file_bytes: None, limit_bytes: None, ..expected };
        assert_eq!(charge(&files), Some(expected));
        files.push(("memory.kmem.usage_in_bytes", "80\n"));
        assert_eq!(charge(&files), Some(Charge { kernel_bytes: 80, ..expected }));
        assert_eq!(charge(&[]), None);
    }
}
