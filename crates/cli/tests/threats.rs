//! What others can do to a run, what its own processes can, and what is left of it for them to
//! find: a test for each line of the threat model in `docs/security.md`. Others are the user
//! `nobody` here.
//!
//! They want root, and programs that can be paged. Where these cannot be had they say so.

mod live;

use live::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use sweephand_checks::{Need, has_program, read_text, skip, trying};

/// The user who is nobody else here.
const NOBODY: u32 = 65534;

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip(Need::Root, "changing the user");
    }
    is_root
}

/// A command of another user's.
fn as_nobody(program: &str) -> Command {
    let mut command = command(program);
    command.uid(NOBODY).gid(NOBODY).current_dir("/").stdin(Stdio::null());
    command
}

/// What another user's shell makes of a script: its status, and what it says.
fn nobodys_shell(script: &str) -> (Option<i32>, String) {
    let output = output(as_nobody("sh").args(["-c", script]));
    (output.status.code(), text(&output.stderr))
}

/// A directory that everybody can get at, with nothing else in it.
fn open_directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

/// A copy of a program there.
fn copy(program: &Path, directory: &Path) -> PathBuf {
    let to = directory.join(program.file_name().unwrap());
    fs::copy(program, &to).unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    to
}

/// Waits for something, within bounds.
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(10));
    }
}

/// A variable of a process's environment as it began.
fn variable(pid: u32, name: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut entries = environment.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    entries.find_map(|entry| Some(entry.strip_prefix(name)?.strip_prefix('=')?.to_string()))
}

/// A run of a program that waits for its input to end, and the library and the control file that it
/// was given.
fn waiting_run(options: &[&str]) -> (Running, [PathBuf; 2]) {
    let mut command = run(&[&["--memory", "16MiB"], options].concat());
    command.args(["--", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = spawn(&mut command);
    let names = wait_for("it does not begin", || {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        let family = child.family();
        let [library, control] =
            ["LD_PRELOAD", "SWEEPHAND_PAGER"].map(|name| variable(*family.first()?, name));
        Some([PathBuf::from(library?), PathBuf::from(control?)])
    });
    (child, names)
}

#[test]
fn others_can_put_nothing_where_processes_of_a_run_look() {
    if !is_root() || !can_page() {
        return;
    }
    let (mut child, [library, control]) = waiting_run(&[]);
    let directory = library.parent().unwrap();
    assert_eq!(control.parent(), Some(directory));
    let mode = |path: &Path| {
        let metadata = fs::metadata(path).unwrap();
        (metadata.uid(), metadata.mode() & 0o7777)
    };
    assert_eq!((mode(directory), mode(&library), mode(&control)), ((0, 0o711), (0, 0o444), (0, 0o600)));
    // While it goes on, and when it has gone: as another user nothing can be made, replaced, read
    // or seen under these names. A name in /proc could be anybody's by then.
    for is_running in [true, false] {
        let _input = trying(|| format!("is running: {is_running}"));
        for script in [
            format!("echo x > {}", library.display()),
            format!("mv {0} {0}.old", library.display()),
            format!("rm -f {0} && cp /bin/true {0}", library.display()),
            format!("mkdir -p {0} && cp /bin/true {1}", directory.display(), library.display()),
            format!("mv {0} {0}.old && mkdir {0}", directory.display()),
            format!("ln -sfn /tmp {}", directory.display()),
            format!("cat {}", control.display()),
            format!("echo x > {}", control.display()),
            format!("ls {}", directory.display()),
        ] {
            let (status, said) = nobodys_shell(&script);
            assert!(status != Some(0) && !said.is_empty(), "{script}: {status:?} {said}");
        }
        for above in directory.ancestors().skip(1) {
            let metadata = fs::metadata(above).unwrap();
            assert!(metadata.uid() == 0 && metadata.mode() & 0o022 == 0, "{}", above.display());
        }
        if is_running {
            drop(child.stdin.take());
            assert!(child.wait().unwrap().success());
            wait_for("its directory is left", || (!directory.exists()).then_some(()));
        }
    }
}

/// In every way that a program can be begun, none says a word of a library that is gone, and none
/// is told of the run.
#[test]
fn what_is_left_behind_begins_programs_as_if_there_had_been_no_run() {
    if !can_page() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for others in ["", "libc.so.6"] {
        let _input = trying(|| format!("LD_PRELOAD={others}"));
        let [gone, out, errors] = [path("gone"), path("out"), path("errors")];
        let mut command = run(&["--memory", "16MiB", "--"]);
        command.arg(program("late")).arg(&gone).env("LD_PRELOAD", others);
        command.stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&errors).unwrap());
        let mut child = spawn(&mut command);
        assert!(child.wait().unwrap().success());
        wait_for("something is left", || left_by(child.id()).is_empty().then_some(()));
        fs::write(&gone, "").unwrap();
        let said = wait_for("what is left behind does not end", || {
            let said = read_text(&out);
            said.lines().last().is_some_and(|line| line == "right" || line.contains(".c:")).then_some(said)
        });
        assert!(said.ends_with("right\n"), "{said}");
        assert_eq!(read_text(&errors), "");
        // Ten environments.
        assert_eq!(said.lines().filter(|line| line.starts_with("PATH=")).count(), 10, "{said}");
        assert!(!said.contains("preload.so") && !said.contains("/control-"), "{said}");
        if !others.is_empty() {
            let kept = said
                .lines()
                .filter(|line| line.starts_with("LD_PRELOAD="))
                .all(|line| line.ends_with(others));
            assert!(kept && said.contains("LD_PRELOAD="), "{said}");
        }
        fs::remove_file(gone).unwrap();
    }
}

/// A process that has become another user, or has another root directory, begins programs without a
/// pager and without a word; the command tells of it at the end.
#[test]
fn programs_of_another_user_or_root_directory_begin_without_a_word() {
    if !is_root() || !can_page() {
        return;
    }
    let script = "setpriv --reuid 65534 --regid 65534 --clear-groups sh -c \
                  'id -u; env | grep -e preload -e control-; exit 0'";
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let mounts = format!(
        "mkdir {0}/usr && mount --bind /usr {0}/usr && ln -s usr/lib usr/lib64 usr/bin {0} && chroot {0} \
         /usr/bin/echo 65534",
        root.display()
    );
    for script in [script, &format!("unshare -m --propagation private sh -c '{mounts}'")] {
        let output = output(run(&["--memory", "16MiB", "--", "sh", "-c"]).arg(script));
        let said = text(&output.stderr);
        assert_eq!(
            (output.status.code(), text(&output.stdout)),
            (Some(0), "65534".to_string()),
            "{script}: {said}"
        );
        assert!(said.lines().count() == 1 && said.contains("ran without a limit"), "{script}: {said}");
    }
}

#[test]
fn a_setuid_program_does_not_load_the_agent() {
    if !is_root() || !can_page() {
        return;
    }
    let directory = open_directory();
    let look = copy(Path::new("/bin/cat"), directory.path());
    let cache = directory.path().join("cache");
    fs::create_dir(&cache).unwrap();
    std::os::unix::fs::chown(&cache, Some(NOBODY), Some(NOBODY)).unwrap();
    let sweephand = copy(Path::new(SWEEPHAND), directory.path());
    let seen = |mode| {
        fs::set_permissions(&look, fs::Permissions::from_mode(mode)).unwrap();
        let mut run = command("setpriv");
        run.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        run.args(["--inh-caps", "+sys_ptrace", "--ambient-caps", "+sys_ptrace"]).arg(&sweephand);
        run.args(["run", "--swap", "/var/tmp", "--memory", "16MiB", "--", "sh", "-c"]);
        run.arg(format!("{} /proc/self/maps; exit 0", look.display())).env("XDG_CACHE_HOME", &cache);
        let output = output(run.current_dir("/").stdin(Stdio::null()));
        assert!(output.status.success(), "{}", text(&output.stderr));
        (text(&output.stdout).contains("preload.so"), text(&output.stderr))
    };
    // Another user's run is as good as root's, with the right that paging takes.
    assert_eq!(seen(0o755), (true, String::new()));
    let (has_agent, said) = seen(0o4755);
    assert!(!has_agent && said.contains("a program that it started ran without a limit"), "{said}");
}

#[test]
fn others_cannot_speak_to_the_command_of_tasks() {
    if !is_root() || !can_page() {
        return;
    }
    let directory = open_directory();
    let file = directory.path().join("tasks.toml");
    fs::write(&file, "memory = '16MiB'\n[[task]]\ncommand = ['sleep', '600']\n").unwrap();
    let mut command = sweephand();
    command.args(["run", "--swap"]).arg(workshop()).arg("--tasks").arg(&file).stdin(Stdio::null());
    let mut child = spawn(&mut command);
    let control = wait_for("it does not begin", || variable(*child.family().first()?, "SWEEPHAND_PAGER"));
    let socket = Path::new(&control).with_file_name("lender");
    assert_eq!(fs::metadata(&socket).unwrap().mode() & 0o777, 0o600);
    // There is no socket with a name that everybody can call.
    let sockets = read_text("/proc/net/unix");
    let ours = format!("sweephand-{}-", child.id());
    assert!(!sockets.lines().any(|line| line.contains(&format!("@{ours}"))), "{sockets}");
    let connect = format!(
        "import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect('{}')",
        socket.display()
    );
    let refused = output(as_nobody("/usr/bin/python3").args(["-c", &connect]));
    assert!(text(&refused.stderr).contains("PermissionError"), "{}", text(&refused.stderr));
    let let_in = output(live::command("python3").args(["-c", &connect]));
    assert!(let_in.status.success(), "{}", text(&let_in.stderr));
    assert!(child.try_wait().unwrap().is_none(), "it goes on");
}

/// Whatever one of the tasks' own processes sends, the command and the other tasks go on.
#[test]
fn a_task_that_means_harm_harms_itself_at_most() {
    if !can_page() {
        return;
    }
    let (churn, rogue) = (program("churn"), program("rogue"));
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for (how, policy) in [
        ("hello", "wsclock"),
        ("silent", "wsclock"),
        ("flood", "wsclock"),
        ("flood", "clock-pro"),
        ("flood", "global-clock"),
        ("flood", "car"),
        ("deaf", "wsclock"),
        ("deaf", "clock-pro"),
    ] {
        let task = |command: String, out: &str| {
            format!("[[task]]\ncommand = [{command}]\nstdout = '{}'\n", path(out).display())
        };
        let file = format!(
            "memory = '24MiB'\npolicy = '{policy}'\n{}{}{}",
            task(format!("'{}', '{how}'", rogue.display()), "rogue"),
            task(format!("'{}', '12', '8', '1'", churn.display()), "one"),
            task(format!("'{}', '12', '8', '2'", churn.display()), "two"),
        );
        fs::write(path("tasks.toml"), file).unwrap();
        let mut command = sweephand();
        command.args(["run", "--load-control", "none", "--swap"]).arg(workshop()).arg("--tasks");
        // So that silent callers can take them all.
        command.arg(path("tasks.toml")).stdin(Stdio::null());
        let output = output(&mut command);
        let said = text(&output.stderr);
        for out in ["one", "two"] {
            assert_eq!(read_text(path(out)), "right\n", "{how} {policy}: {out}: {said}");
        }
        // One that speaks in another's name may be ended.
        if matches!(how, "hello" | "silent") {
            assert_eq!(read_text(path("rogue")), "right\n", "{how} {policy}: {said}");
            assert!(output.status.success(), "{how}: {said}");
        }
        assert!(!said.contains("panicked"), "{how} {policy}: {said}");
    }
}

/// What the command counts is then wrong; but what agents act on cannot be written by any process.
#[test]
fn a_program_cannot_write_what_agents_act_on() {
    if !can_page() {
        return;
    }
    let stats = workshop().join("scribble.json");
    let mut command = run(&["--memory", "16MiB", "--stats"]);
    let output = output(command.arg(&stats).arg("--").arg(program("scribble")));
    let said = text(&output.stderr);
    assert_eq!(text(&output.stdout), "right", "{said}");
    assert!(!said.contains("panicked") && said.lines().count() <= 1, "{said}");
    let _ = fs::remove_file(stats);
}

#[test]
fn paged_out_contents_are_unreadable_by_others() {
    if !is_root() || !can_page() {
        return;
    }
    let mut command = run(&["--memory", "16MiB", "--"]);
    command.arg(program("waits")).arg("32").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = spawn(&mut command);
    let mut said = [0; 5];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
    let family = child.family();
    let threads = fs::read_dir(format!("/proc/{}/task", family[0])).unwrap();
    let files = threads.flat_map(|thread| fs::read_dir(thread.unwrap().path().join("fd")).unwrap());
    let is_store =
        |path: &PathBuf| fs::read_link(path).is_ok_and(|name| name.to_string_lossy().contains("/#"));
    let stores: Vec<PathBuf> = files.map(|file| file.unwrap().path()).filter(is_store).collect();
    assert!(!stores.is_empty());
    for store in stores {
        let _input = trying(|| store.display().to_string());
        let metadata = fs::metadata(&store).unwrap();
        assert_eq!((metadata.mode() & 0o777, metadata.nlink(), metadata.uid()), (0o600, 0, 0));
        let (status, said) = nobodys_shell(&format!("cat {}", store.display()));
        assert!(status != Some(0) && said.contains("ermission denied"), "{said}");
    }
}

#[test]
fn swap_file_is_unreadable_by_others() {
    if !is_root() || !can_swap() {
        return;
    }
    let folder = tempfile::tempdir_in(workshop()).unwrap();
    let mut command = sweephand();
    command.args(["run", "--kernel", "--memory", "16MiB", "--swap"]).arg(folder.path()).arg("--");
    command.arg(program("waits")).arg("32").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = spawn(&mut command);
    let mut said = [0; 5];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let metadata = files[0].metadata().unwrap();
    assert_eq!((metadata.mode() & 0o777, metadata.uid()), (0o600, 0), "{files:?}");
}

#[test]
fn places_that_others_can_write_to_are_not_used() {
    if !is_root() || !can_page() {
        return;
    }
    let directory = open_directory();
    let shared = directory.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    let refused = |command: &mut Command, words: &str| {
        let output = output(command.env("XDG_CACHE_HOME", &shared).stdin(Stdio::null()));
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{said}");
        assert!(said.contains(words) && said.lines().count() == 1, "{said}");
    };
    // The recorder is a program that is kept: whoever can replace it would be run by whoever
    // records.
    if has_program("valgrind") {
        refused(sweephand().args(["record", "-o", "/dev/null", "--", "true"]), "can be written to by others");
    }
    // A swap file is used by its name.
    let shared = shared.to_str().unwrap();
    let kernel = ["run", "--kernel", "--memory", "16MiB", "--swap", shared, "--", "true"];
    refused(sweephand().args(kernel), "can be written to by others");
    // Another user without a place of his own is told what to do.
    let sweephand = copy(Path::new(SWEEPHAND), directory.path());
    let mut run = as_nobody(sweephand.to_str().unwrap());
    run.args(["run", "--swap", shared, "--memory", "16MiB", "--", "true"]).env_remove("XDG_RUNTIME_DIR");
    refused(&mut run, "set XDG_CACHE_HOME or XDG_RUNTIME_DIR to one");
}

/// In `/tmp` somebody may have been quicker to put something under the name of a result.
#[test]
fn results_do_not_follow_another_users_links() {
    if !is_root() || !can_page() {
        return;
    }
    let directory = open_directory();
    let sticky = directory.path().join("sticky");
    fs::create_dir(&sticky).unwrap();
    fs::set_permissions(&sticky, fs::Permissions::from_mode(0o1777)).unwrap();
    let victim = directory.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let link = sticky.join("stats.json");
    assert_eq!(nobodys_shell(&format!("ln -s {} {}", victim.display(), link.display())).0, Some(0));
    let stats = |to: &Path| output(run(&["--memory", "16MiB", "--stats"]).arg(to).args(["--", "true"]));
    let refused = stats(&link);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("a link of another user's") && said.lines().count() == 1, "{said}");
    assert_eq!(read_text(&victim), "precious");
    // One's own is followed, as ever.
    let own = sticky.join("own.json");
    symlink(&victim, &own).unwrap();
    assert!(stats(&own).status.success());
    assert!(read_text(&victim).contains("memory_limit_bytes"));
    assert!(fs::symlink_metadata(&own).unwrap().is_symlink());
}
