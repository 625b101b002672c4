//! What `watch` and `advise` can watch: a process, or a service with all its processes.

use std::path::PathBuf;
use sweephand_watch::Named;

/// A running process or service: at most one of these.
#[derive(clap::Args)]
#[group(id = "watched", multiple = false)]
pub(crate) struct Watched {
    /// A running process, alone. A number alone means this, too
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// A running process with all that it has started and starts. Pages that processes share count
    /// once, with this and the three options below
    #[arg(long, value_name = "PID")]
    tree: Option<u32>,
    /// The processes of a cgroup and of those below it: its directory, or its path as
    /// /proc/PID/cgroup shows it
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    /// The processes of a systemd unit
    #[arg(long, value_name = "NAME")]
    unit: Option<String>,
    /// The processes of a container of Docker, Podman, containerd or Kubernetes: its name, its id,
    /// or the first 12 hex digits of it; or a pod, or POD/CONTAINER
    #[arg(long, value_name = "NAME")]
    container: Option<String>,
}

impl Watched {
    /// The service, if it is one.
    pub(crate) fn service(&self) -> Option<Named> {
        let Self { pid: _, tree, cgroup, unit, container } = self;
        let cgroup = || cgroup.clone().map(Named::Cgroup);
        let unit = || unit.clone().map(Named::Unit);
        tree.map(Named::Tree).or_else(cgroup).or_else(unit).or(container.clone().map(Named::Container))
    }

    /// Whether there is one at all.
    pub(crate) fn is_given(&self) -> bool {
        self.pid.is_some() || self.service().is_some()
    }
}
