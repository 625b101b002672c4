//! Children of a recorded process that are not recorded themselves: who they are, and how much they
//! work.
//!
//! They run at their own speed, without Valgrind, and are looked at now and then. A child that is
//! gone before the next look was no large one.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use sweephand_trace::LargestChild;

/// Time between two looks.
const EVERY: Duration = Duration::from_millis(20);
const PAGE_KIB: u64 = 4;

/// Looks at the descendants of a process until it is asked what it has seen.
pub(crate) struct Watch {
    over: Arc<AtomicBool>,
    thread: JoinHandle<HashMap<i32, Child>>,
}

/// A descendant.
struct Child {
    name: String,
    /// Most pages of anonymous memory that it was seen with.
    pages: u64,
    /// It has made no exec: it runs in the recorder still, whose own memory cannot be told from
    /// its.
    forked: bool,
    /// Processor time, in the kernel's ticks.
    ticks: u64,
}

impl Watch {
    pub(crate) fn start(root: u32) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let mut seen = HashMap::new();
            while !ends.load(Relaxed) {
                look(root as i32, true, &mut seen);
                thread::sleep(EVERY);
            }
            seen
        });
        Self { over, thread }
    }

    /// The child that did the most work, by its pages; or one that only forked and worked longer
    /// than `root` itself.
    pub(crate) fn finish(self, root: u32) -> Option<LargestChild> {
        self.over.store(true, Relaxed);
        let mut seen = self.thread.join().expect("it does not panic");
        let own = seen.remove(&(root as i32)).map_or(0, |root| root.ticks);
        let (forked, others): (Vec<Child>, Vec<Child>) = seen.into_values().partition(|child| child.forked);
        let largest = others.into_iter().filter(|child| child.pages > 0).max_by_key(|child| child.pages);
        let busiest = forked.into_iter().filter(|child| child.ticks > own).max_by_key(|child| child.ticks);
        match (largest, busiest) {
            (_, Some(Child { name, .. })) => Some(LargestChild { program: name, pages: None }),
            (Some(Child { name, pages, .. }), None) => {
                Some(LargestChild { program: name, pages: Some(pages) })
            }
            (None, None) => None,
        }
    }
}

/// Takes note of a process and its descendants.
fn look(pid: i32, is_root: bool, seen: &mut HashMap<i32, Child>) {
    let folder = format!("/proc/{pid}");
    let folder = Path::new(&folder);
    let Ok(status) = fs::read_to_string(folder.join("status")) else { return };
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let kib = |name: &str| field(name).and_then(|text| text.strip_suffix(" kB")?.parse::<u64>().ok());
    let forked = fs::read_link(folder.join("exe")).is_ok_and(|exe| exe.ends_with("sweephand-amd64-linux"));
    let name = field("Name:").unwrap_or_default().to_string();
    let pages = if forked || is_root { 0 } else { kib("RssAnon:").unwrap_or_default() / PAGE_KIB };
    let ticks = ticks(folder).unwrap_or_default();
    let child = seen.entry(pid).or_insert(Child { name: String::new(), pages: 0, forked, ticks: 0 });
    // A process that has ended and is not waited for yet has no memory any more, and no file.
    if kib("VmRSS:").is_some() {
        child.forked = forked;
        child.pages = if forked { 0 } else { child.pages.max(pages) };
        child.name = name;
    }
    child.ticks = child.ticks.max(ticks);
    for task in fs::read_dir(folder.join("task")).into_iter().flatten().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|word| word.parse().ok()) {
            look(child, false, seen);
        }
    }
}

/// The processor time of a process, without that of its children.
fn ticks(folder: &Path) -> Option<u64> {
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    // Behind the name, which is in brackets and may have any letters: the state, and from there the
    // 12th and 13th.
    let mut words = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    Some(words.next()?.parse::<u64>().ok()? + words.next()?.parse::<u64>().ok()?)
}
