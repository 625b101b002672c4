//! A watch of a service as lines of JSON. `docs/schema/watch-service.json` has what they hold.

use super::json::{faults, ns, print};
use super::show::{Names, ShowService};
use serde_json::{Value, json};
use std::io;
use std::time::Duration;
use sweephand_pager::PAGE_BYTES;
use sweephand_watch::{Options, Pages, ServiceEpoch, ServiceWatching};

/// Prints the lines.
pub(super) struct Lines {
    /// What the user calls the service.
    pub(super) label: String,
    pub(super) how: Options,
}

fn by_kind(pages: Pages) -> Value {
    json!({
        "anonymous": pages.anonymous,
        "shared": pages.shared,
        "file": pages.file,
        "hugetlb": pages.hugetlb,
    })
}

impl ShowService for Lines {
    fn begin(&mut self, watching: &ServiceWatching, names: &Names) -> io::Result<()> {
        let process = |pid: u32| json!({ "pid": pid, "program": names.of(pid) });
        print(&json!({
            "event": "begin",
            "version": env!("CARGO_PKG_VERSION"),
            "service": self.label,
            "cgroup": watching.cgroup().map(|path| path.display().to_string()),
            "page_bytes": PAGE_BYTES,
            "every_ns": ns(self.how.every),
            "overhead": self.how.overhead,
            "files_missing": watching.files_missing(),
            "processes": watching.members().map(process).collect::<Vec<_>>(),
        }))
    }

    fn epoch(&mut self, watching: &ServiceWatching, epoch: &ServiceEpoch, names: &Names) -> io::Result<()> {
        let (history, look) = (watching.history(), &epoch.look);
        let event = |event: &str, pid: u32| json!({ "event": event, "pid": pid, "program": names.of(pid) });
        for (name, processes) in [("came", &look.came), ("exec", &look.new_programs), ("went", &look.went)] {
            processes.iter().try_for_each(|&process| print(&event(name, process)))?;
        }
        let members = look.members.iter().map(|member| {
            json!({
                "pid": member.process,
                "program": names.of(member.process),
                "resident_pages": member.resident_pages,
                "shared_pages": member.shared_pages,
                "accessed_pages": member.accessed_pages,
            })
        });
        let unopened = watching
            .unopened()
            .iter()
            .map(|process| json!({ "pid": process.process, "reason": process.reason.to_string() }));
        let mut used = by_kind(look.used);
        used["cached"] = look.used.cached.into();
        print(&json!({
            "event": "epoch",
            "epoch": epoch.number,
            "time_ns": ns(epoch.time),
            "length_ns": ns(epoch.length),
            "cost_ns": ns(epoch.cost),
            "next_epoch_ns": ns(watching.period()),
            "resident_pages": look.resident.all(),
            "resident": by_kind(look.resident),
            "charged_elsewhere": look.charged_elsewhere.map(by_kind),
            "unmapped_shared_pages": look.unmapped_shared_pages,
            "cached_pages": look.cached_pages,
            "used_pages": look.used.all(),
            "used": used,
            "lost_file_blocks": look.lost_file_blocks,
            "first_used_pages": epoch.first_used_pages,
            "dirty_pages": look.dirty_pages,
            "unknown_pages": look.unknown_pages,
            "dropped_pages": look.dropped_pages,
            "working_set_10s_pages": history.working_set(Duration::from_secs(10)),
            "working_set_60s_pages": history.working_set(Duration::from_secs(60)),
            "largest_epoch_pages": history.largest_epoch_pages(),
            "faults": faults(history),
            "processes": members.collect::<Vec<_>>(),
            "unopened": unopened.collect::<Vec<_>>(),
        }))
    }
}
