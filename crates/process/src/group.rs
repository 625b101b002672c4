//! The processes of a service: a process with all that it starts, or those in a cgroup, which may
//! be named by its path, by a systemd unit or by a container.
//!
//! ```text
//!   --tree PID          the process, its children, theirs, ...; also when a parent ends
//!   --cgroup PATH       a directory, or a path below a mount of cgroups, as /proc/PID/cgroup has it
//!   --unit NAME         the cgroup that systemd has called NAME or NAME.service
//!   --container NAME    the cgroup whose name has the id, as docker-ID.scope or kubepods/.../ID;
//!                       or the name that its engine has given it, or pod and container
//! ```
//!
//! A cgroup has the processes of the cgroups below it, too. Mounts of cgroups are searched in this
//! order, and the first that has what is looked for counts: that with the memory controller, that
//! of version 2, that of systemd, the others. Cgroups of version 1 and 2 list processes alike.

use crate::container_names::{LEAST_ID_DIGITS, meant_by};
use crate::family::{children, started};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

/// Cgroups are looked for at most this many levels below a mount.
const MOST_LEVELS: usize = 32;
/// A message names at most this many mounts.
const LISTED: usize = 2;

/// What a user calls a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Named {
    /// A process with all that it starts.
    Tree(u32),
    /// A cgroup: its directory, or its path below a mount.
    Cgroup(PathBuf),
    /// A systemd unit. Without an ending it is a service.
    Unit(String),
    /// A container: its name, its id, or the first digits of that; or a pod.
    Container(String),
}

/// Why there is no such service.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// There is no process with this number.
    #[error("process {0}: there is none")]
    NoProcess(u32),
    /// There is no such cgroup.
    #[error("--cgroup {}: there is no such cgroup: neither this directory, nor this path below {}", .0.display(), .1)]
    NoCgroup(PathBuf, String),
    /// It is a directory, but not a cgroup.
    #[error("--cgroup {}: it is no cgroup: it has no file cgroup.procs", .0.display())]
    NotACgroup(PathBuf),
    /// There is no unit with this name that runs.
    #[error("--unit {0}: no cgroup below {1} has this name: is the unit running?")]
    NoUnit(String, String),
    /// There is no container with this id or name that runs.
    #[error(
        "--container {0}: no cgroup below {1} is that of a container with this id or name: is it running?"
    )]
    NoContainer(String, String),
    /// No engine knows the name, and it is no id.
    #[error(
        "--container {0}: no container has this name; of an id, write at least {LEAST_ID_DIGITS} hex digits"
    )]
    NoName(String),
    /// More than one has this name.
    #[error("{}: it may be any of {}", .0, .1.join(", "))]
    Ambiguous(String, Vec<String>),
    /// It cannot be read.
    #[error("{}", .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
}

/// Where cgroups are mounted, in the order in which they are searched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mounts(Vec<PathBuf>);

impl Mounts {
    /// Those that this process sees.
    pub fn here() -> Self {
        Self::of(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
    }

    /// Those of a text like `/proc/self/mountinfo`.
    fn of(mountinfo: &str) -> Self {
        let mut found: Vec<(u8, PathBuf)> = mountinfo
            .lines()
            .filter_map(|line| {
                let (place, file_system) = line.split_once(" - ")?;
                let mut words = file_system.split(' ');
                let (kind, options) = (words.next()?, words.nth(1).unwrap_or_default());
                let has = |wanted: &str| options.split(',').any(|option| option == wanted);
                let rank = match kind {
                    "cgroup" if has("memory") => 0,
                    "cgroup2" => 1,
                    "cgroup" if has("name=systemd") => 2,
                    "cgroup" => 3,
                    _ => return None,
                };
                Some((rank, PathBuf::from(place.split(' ').nth(4)?)))
            })
            .collect();
        found.sort_by_key(|(rank, _)| *rank);
        Self(found.into_iter().map(|(_, mount)| mount).collect())
    }

    /// Their paths, for people.
    fn listed(&self) -> String {
        match self.0.first() {
            None => "/sys/fs/cgroup, where none is mounted".to_string(),
            Some(_) => {
                let named = self.0.iter().take(LISTED).map(|mount| mount.display().to_string());
                let named = named.collect::<Vec<_>>().join(", ");
                match self.0.len().saturating_sub(LISTED) {
                    0 => named,
                    1 => format!("{named} and 1 other"),
                    others => format!("{named} and {others} others"),
                }
            }
        }
    }

    /// The cgroups whose name is right, in the first mount that has any. What is below one of them
    /// is not looked at.
    fn search(&self, is_right: impl Fn(&str) -> bool) -> Vec<PathBuf> {
        let found = |mount: &PathBuf| {
            let (mut found, mut open) = (Vec::new(), vec![(mount.clone(), 0)]);
            while let Some((folder, level)) = open.pop() {
                for below in folders(&folder) {
                    if below.file_name().and_then(|name| name.to_str()).is_some_and(&is_right) {
                        found.push(below);
                    } else if level < MOST_LEVELS {
                        open.push((below, level + 1));
                    }
                }
            }
            found.sort();
            found
        };
        self.0.iter().map(found).find(|found| !found.is_empty()).unwrap_or_default()
    }
}

/// The folders in a folder. None if it cannot be read, or has just gone.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// The processes of a service, which come and go.
#[derive(Debug)]
pub struct Group {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// A process that was named, and the processes known so far with their start: the parent of
    /// some may have ended, and then they are found only because they are known.
    Tree {
        first: u32,
        known: BTreeMap<u32, Option<Duration>>,
    },
    Cgroup(PathBuf),
}

impl Group {
    /// Finds a service. A process has to be there, and a cgroup may be empty.
    pub fn find(named: &Named, mounts: &Mounts) -> Result<Self, GroupError> {
        let kind = match named {
            Named::Tree(first) => {
                Kind::Tree { first: *first, known: BTreeMap::from([(*first, started(*first))]) }
            }
            Named::Cgroup(path) => Kind::Cgroup(cgroup(path, mounts)?),
            Named::Unit(name) => Kind::Cgroup(unit(name, mounts)?),
            Named::Container(name) => Kind::Cgroup(container(name, mounts, Path::new("/"))?),
        };
        let mut group = Self { kind };
        match (group.members()?.is_empty(), &group.kind) {
            (true, Kind::Tree { first, .. }) => Err(GroupError::NoProcess(*first)),
            _ => Ok(group),
        }
    }

    /// The processes now, ascending. A cgroup that is gone has none.
    pub fn members(&mut self) -> Result<Vec<u32>, GroupError> {
        match &mut self.kind {
            Kind::Tree { known, .. } => {
                // A number may belong to another process by now, which has another start.
                known.retain(|process, start| start.is_some() && started(*process) == *start);
                let mut open: Vec<u32> = known.keys().copied().collect();
                while let Some(parent) = open.pop() {
                    for child in children(parent) {
                        if let Entry::Vacant(new) = known.entry(child) {
                            new.insert(started(child));
                            open.push(child);
                        }
                    }
                }
                Ok(known.keys().copied().collect())
            }
            Kind::Cgroup(path) => {
                let mut members = BTreeSet::new();
                list(path, &mut members).or_else(|error| match error.kind() {
                    // It has gone meanwhile.
                    _ if !path.exists() => Ok(()),
                    _ => Err(GroupError::Unreadable(path.join("cgroup.procs"), error)),
                })?;
                Ok(members.into_iter().collect())
            }
        }
    }

    /// Whether no process can come any more: the cgroup is gone, or all processes of the tree are.
    pub fn is_gone(&self) -> bool {
        match &self.kind {
            Kind::Tree { known, .. } => known.is_empty(),
            Kind::Cgroup(path) => !path.exists(),
        }
    }

    /// The inodes of the cgroup and of those below it, to which the kernel charges memory. Empty:
    /// it is no cgroup, or not one with the memory controller.
    pub fn memory_cgroups(&self) -> BTreeSet<u64> {
        let Some(path) = self.cgroup().filter(|path| path.join("memory.stat").exists()) else {
            return BTreeSet::new();
        };
        let all = std::iter::once(path.to_path_buf()).chain(all_below(path));
        all.filter_map(|path| fs::metadata(path).ok()).map(|of| of.ino()).collect()
    }

    /// The most bytes that the cgroup was charged for at a time. `None`: it is none, or the kernel
    /// does not say.
    pub fn peak_bytes(&self) -> Option<u64> {
        let cgroup = self.cgroup()?;
        let peak = ["memory.max_usage_in_bytes", "memory.peak"]
            .into_iter()
            .find_map(|file| fs::read_to_string(cgroup.join(file)).ok())?;
        peak.trim().parse().ok()
    }

    /// The directory of the cgroup, if it is one.
    pub fn cgroup(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Tree { .. } => None,
            Kind::Cgroup(path) => Some(path),
        }
    }
}

/// Adds the processes of a cgroup, and of those below it.
fn list(path: &Path, members: &mut BTreeSet<u32>) -> io::Result<()> {
    // 0 stands for a process that cannot be seen from here.
    let numbers = |text: String| -> Vec<u32> {
        text.lines().filter_map(|line| line.parse().ok()).filter(|process| *process != 0).collect()
    };
    members.extend(numbers(fs::read_to_string(path.join("cgroup.procs"))?));
    for below in all_below(path) {
        // A cgroup of threads lists no processes: the one above it does.
        members.extend(numbers(fs::read_to_string(below.join("cgroup.procs")).unwrap_or_default()));
    }
    Ok(())
}

/// The folders below a folder, at any depth.
pub(crate) fn all_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = folders(folder);
    let mut next = 0;
    while next < found.len() {
        found.extend(folders(&found[next]));
        next += 1;
    }
    found
}

/// The cgroup with a path: a directory, or below a mount. A file of a cgroup stands for it.
fn cgroup(path: &Path, mounts: &Mounts) -> Result<PathBuf, GroupError> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    let below = mounts.0.iter().map(|mount| mount.join(relative));
    let folder = |place: PathBuf| match place.parent() {
        Some(parent) if place.is_file() => parent.to_path_buf(),
        _ => place,
    };
    let places = std::iter::once(path.to_path_buf()).chain(below).map(folder);
    let mut places = places.filter(|place| place.is_dir());
    match places.clone().find(|place| place.join("cgroup.procs").exists()) {
        Some(place) => Ok(place),
        None if places.next().is_some() => Err(GroupError::NotACgroup(path.to_path_buf())),
        None => Err(GroupError::NoCgroup(path.to_path_buf(), mounts.listed())),
    }
}

/// The one of some cgroups, if it is one.
fn only(what: String, mut found: Vec<PathBuf>, none: GroupError) -> Result<PathBuf, GroupError> {
    match found.len() {
        0 => Err(none),
        1 => Ok(found.remove(0)),
        _ => Err(GroupError::Ambiguous(what, found.iter().map(|path| path.display().to_string()).collect())),
    }
}

/// The cgroup of a systemd unit.
fn unit(name: &str, mounts: &Mounts) -> Result<PathBuf, GroupError> {
    const KINDS: [&str; 3] = [".service", ".scope", ".slice"];
    let has_kind = KINDS.iter().any(|kind| name.ends_with(kind));
    let wanted = if has_kind { name.to_string() } else { format!("{name}.service") };
    let found = mounts.search(|name| name == wanted);
    only(format!("--unit {name}"), found, GroupError::NoUnit(name.to_string(), mounts.listed()))
}

/// The cgroup of a container, or of a pod. The engines' files are below `root`.
fn container(name: &str, mounts: &Mounts, root: &Path) -> Result<PathBuf, GroupError> {
    let meant = meant_by(name, root);
    if meant.is_empty() {
        return Err(GroupError::NoName(name.to_string()));
    }
    let found = mounts.search(|cgroup| meant.iter().any(|meant| meant.is_cgroup(cgroup)));
    only(format!("--container {name}"), found, GroupError::NoContainer(name.to_string(), mounts.listed()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::Instant;
    use sweephand_checks::trying;

    /// A mount with cgroups, each with a process.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn of(cgroups: &[(&str, &str)]) -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            fs::write(tree.0.path().join("cgroup.procs"), "1\n").unwrap();
            for (path, processes) in cgroups {
                let mut folder = tree.0.path().to_path_buf();
                for part in path.split('/') {
                    folder.push(part);
                    fs::create_dir_all(&folder).unwrap();
                    if !folder.join("cgroup.procs").exists() {
                        fs::write(folder.join("cgroup.procs"), "").unwrap();
                    }
                }
                fs::write(folder.join("cgroup.procs"), processes).unwrap();
            }
            tree
        }

        fn mounts(&self) -> Mounts {
            Mounts(vec![self.0.path().to_path_buf()])
        }

        fn members(&self, named: Named) -> Result<Vec<u32>, String> {
            let found = Group::find(&named, &self.mounts()).and_then(|mut group| group.members());
            // Paths without the folder, which has another name each time.
            found.map_err(|error| error.to_string().replace(self.0.path().to_str().unwrap(), "MOUNT"))
        }
    }

    fn cgroup_named(path: &str) -> Named {
        Named::Cgroup(path.into())
    }

    #[test]
    fn the_mount_with_the_memory_controller_is_searched_first() {
        let v2 = "30 24 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let systemd = "31 24 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n";
        let processors = "36 31 0:33 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n";
        let memory = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";
        let other = "22 1 0:20 / /proc rw - proc proc rw\n";
        let mounts = |lines: &[&str]| Mounts::of(&lines.concat()).listed();
        let all = mounts(&[other, processors, systemd, v2, memory]);
        let places = ["memory", "unified", "systemd", "cpu"].map(|name| format!("/sys/fs/cgroup/{name}"));
        assert_eq!(all, format!("{}, {} and 2 others", places[0], places[1]));
        assert!(mounts(&[v2, memory, systemd]).ends_with("/unified and 1 other"));
        assert_eq!(mounts(&[other]), "/sys/fs/cgroup, where none is mounted");
    }

    #[test]
    fn a_cgroup_has_the_processes_of_those_below_it() {
        let tree = Tree::of(&[("a/b/c", "7\n5\n"), ("a", "3\n"), ("a/d", "0\n9\n"), ("empty/e", "")]);
        assert_eq!(tree.members(cgroup_named("/a")), Ok(vec![3, 5, 7, 9]));
        assert_eq!(tree.members(cgroup_named("a/b")), Ok(vec![5, 7]));
        fs::write(tree.0.path().join("a/memory.stat"), "").unwrap();
        let group = |path| Group::find(&cgroup_named(path), &tree.mounts()).unwrap();
        let inode = |path: &str| fs::metadata(tree.0.path().join(path)).unwrap().ino();
        let all = ["a", "a/b", "a/b/c", "a/d"].map(inode);
        assert_eq!(group("a").memory_cgroups(), BTreeSet::from(all));
        assert!(group("a/b").memory_cgroups().is_empty());
        let whole = tree.0.path().join("a/d");
        assert_eq!(tree.members(Named::Cgroup(whole)), Ok(vec![9]));
        assert_eq!(tree.members(cgroup_named("empty")), Ok(vec![]));
        assert_eq!(tree.members(cgroup_named("/a/b/cgroup.procs")), Ok(vec![5, 7]));
        let none =
            "--cgroup /nowhere: there is no such cgroup: neither this directory, nor this path below MOUNT";
        assert_eq!(tree.members(cgroup_named("/nowhere")), Err(none.to_string()));
        let outside = tempfile::tempdir().unwrap();
        let said = tree.members(Named::Cgroup(outside.path().into())).unwrap_err();
        assert!(said.ends_with("it is no cgroup: it has no file cgroup.procs"), "{said}");
    }

    #[test]
    fn a_cgroup_that_goes_has_no_processes_any_more() {
        let tree = Tree::of(&[("a", "3\n")]);
        let mut group = Group::find(&cgroup_named("a"), &tree.mounts()).unwrap();
        fs::write(tree.0.path().join("a/cgroup.procs"), "3\n4\n").unwrap();
        assert_eq!((group.members().unwrap(), group.is_gone()), (vec![3, 4], false));
        fs::remove_dir_all(tree.0.path().join("a")).unwrap();
        assert_eq!((group.members().unwrap(), group.is_gone()), (vec![], true));
    }

    #[test]
    fn a_unit_is_found_by_its_name() {
        let tree = Tree::of(&[
            ("system.slice/nginx.service", "4\n"),
            ("system.slice/system-db.slice/db@main.service", "5\n"),
            ("user.slice/user-1.slice/app.service", "6\n"),
            ("user.slice/user-2.slice/app.service", "7\n"),
            ("init.scope", "1\n"),
        ]);
        let members = |name: &str| tree.members(Named::Unit(name.to_string()));
        assert_eq!((members("nginx"), members("nginx.service")), (Ok(vec![4]), Ok(vec![4])));
        assert_eq!((members("db@main"), members("init.scope")), (Ok(vec![5]), Ok(vec![1])));
        assert_eq!(members("system.slice"), Ok(vec![4, 5]));
        let none = "--unit ngin: no cgroup below MOUNT has this name: is the unit running?";
        assert_eq!(members("ngin"), Err(none.to_string()));
        let both = "--unit app: it may be any of MOUNT/user.slice/user-1.slice/app.service, \
                    MOUNT/user.slice/user-2.slice/app.service";
        assert_eq!(members("app"), Err(both.to_string()));
    }

    #[test]
    fn a_container_is_found_by_its_id_as_each_engine_writes_it() {
        let id = |first: &str| format!("{first:0<64}");
        let ids = ["aaaaaaaaaaa1", "bbbbbbbbbbb1", "ccccccccccc1", "ddddddddddd1", "ddddddddddd2"].map(id);
        let paths = [
            format!("docker/{}", ids[0]),
            format!("machine.slice/libpod-{}.scope/container", ids[1]),
            format!("machine.slice/libpod-conmon-{}.scope", ids[1]),
            format!("kubepods/burstable/pod0-1-2/{}", ids[2]),
            format!("kubepods.slice/kubepods-pod5.slice/cri-containerd-{}.scope", ids[3]),
            format!("system.slice/docker-{}.scope", ids[4]),
        ];
        let cgroups: Vec<(&str, &str)> =
            paths.iter().map(String::as_str).zip(["11", "12", "99", "13", "14", "15"]).collect();
        let tree = Tree::of(&cgroups);
        let members = |id: &str| tree.members(Named::Container(id.to_string()));
        for (id, process) in ids.iter().zip(11..) {
            let _input = trying(|| id.clone());
            assert_eq!((members(id), members(&id[..12])), (Ok(vec![process]), Ok(vec![process])));
        }
        assert_eq!(members("AAAAAAAAAAA1"), Ok(vec![11]));
        let short =
            "--container ddddddddddd: no container has this name; of an id, write at least 12 hex digits";
        assert_eq!(members("ddddddddddd"), Err(short.to_string()));
        assert!(members("eeeeeeeeeeee").unwrap_err().contains("is it running?"));
        let alike = Tree::of(&[("docker/abcdefabcdef01", "1"), ("docker/abcdefabcdef02", "2")]);
        let said = alike.members(Named::Container("abcdefabcdef".to_string())).unwrap_err();
        let both = "--container abcdefabcdef: it may be any of MOUNT/docker/abcdefabcdef01, \
                    MOUNT/docker/abcdefabcdef02";
        assert_eq!(said, both);
    }

    /// Two pods of one name, of which one runs, with two containers.
    #[test]
    fn a_container_and_a_pod_are_found_by_name() {
        let [main, side] = ["c1", "c2"].map(|first| format!("{first:0<64}"));
        let pod = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0f1e_22.slice";
        let paths = [&main, &side].map(|id| format!("{pod}/cri-containerd-{id}.scope"));
        let tree = Tree::of(&[(&paths[0], "21"), (&paths[1], "22"), ("system.slice/other", "23")]);
        let root = tempfile::tempdir().unwrap();
        for (container, id) in [("main", &main), ("side", &side)] {
            let file = root.path().join(format!("var/log/containers/shop_prod_{container}-{id}.log"));
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        for pod in ["prod_shop_0f1e-22", "prod_shop_aaaa-11"] {
            fs::create_dir_all(root.path().join("var/log/pods").join(pod)).unwrap();
        }
        let found = |name: &str| {
            let found = container(name, &tree.mounts(), root.path());
            found.map(|path| path.strip_prefix(tree.0.path()).unwrap().display().to_string())
        };
        assert_eq!(found("shop/side").unwrap(), paths[1]);
        assert_eq!(found("prod/shop/main").unwrap(), paths[0]);
        assert_eq!(found("shop").unwrap(), pod);
        assert_eq!(tree.members(cgroup_named(pod)), Ok(vec![21, 22]));
        assert!(matches!(found("main"), Err(GroupError::NoName(_))));
    }

    #[test]
    fn a_process_whose_parent_ends_stays_in_the_tree() {
        const PATIENCE: Duration = Duration::from_secs(60);
        let script = "sleep 100 & echo $!; read line";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh");
        let mut group = Group::find(&Named::Tree(shell.id()), &Mounts(Vec::new())).unwrap();
        let began = Instant::now();
        let mut members = Vec::new();
        while members.len() < 2 && began.elapsed() < PATIENCE {
            members = group.members().unwrap();
        }
        drop(shell.stdin.take());
        shell.wait().unwrap();
        let left = group.members().unwrap();
        assert!(members.contains(&shell.id()) && members.len() == 2, "{members:?}");
        assert!(left.len() == 1 && members.contains(&left[0]) && !group.is_gone(), "{left:?}");
        assert!(Command::new("kill").arg(left[0].to_string()).status().unwrap().success());
        while !group.members().unwrap().is_empty() && began.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        assert!(group.is_gone() && group.cgroup().is_none());
        let none = Group::find(&Named::Tree(u32::MAX), &Mounts(Vec::new())).unwrap_err();
        assert_eq!(none.to_string(), "process 4294967295: there is none");
    }
}
