//! Tells `--version` which commit a release was built from. Other builds do not ask, so that a new
//! commit does not have everything built again.

use std::fs;
use std::path::Path;
use std::process::Command;

fn main() {
    let version = env!("CARGO_PKG_VERSION");
    println!("cargo::rerun-if-changed=build.rs");
    let commit = if std::env::var("PROFILE").as_deref() == Ok("release") { commit() } else { None };
    let shown = commit.map_or(version.to_string(), |commit| format!("{version} ({commit})"));
    println!("cargo::rustc-env=SWEEPHAND_VERSION={shown}");
}

/// The commit of the checkout, or of the package that cargo made of one.
fn commit() -> Option<String> {
    const LENGTH: usize = 10;
    let of_package = fs::read_to_string(".cargo_vcs_info.json").ok();
    let hash = match &of_package {
        Some(info) => info.split("\"sha1\": \"").nth(1)?.split('"').next()?.to_string(),
        None => {
            let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
            if Path::new(&log).exists() {
                println!("cargo::rerun-if-changed={log}");
            }
            git(&["rev-parse", "HEAD"])?
        }
    };
    hash.get(..LENGTH).map(str::to_string)
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}
