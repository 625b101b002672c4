//! Builds the preload library and puts it into the command as bytes.
//!
//! The library cannot be a member of the workspace (no std, its own panic handler), and Cargo has
//! no stable way to depend on a built library. So this script builds it with the same Cargo, from a
//! copy with the workspace's lock file. The copy uses the same versions of the same crates. They
//! are downloaded already when this script runs, so it needs no network. Builds of this crate with
//! other features or profiles share the copy and what was compiled of it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    let here = folder("CARGO_MANIFEST_DIR");
    let out = folder("OUT_DIR");
    // The agent is for x86-64. Elsewhere the command is built without, and says so when it is
    // asked to page a program. `cargo quick` does without, too.
    println!("cargo::rerun-if-env-changed=SWEEPHAND_WITHOUT_AGENT");
    let is_unwanted = env::var_os("SWEEPHAND_WITHOUT_AGENT").is_some();
    if is_unwanted || env::var("CARGO_CFG_TARGET_ARCH").as_deref() != Ok("x86_64") {
        let none = out.join("none");
        fs::write(&none, "").expect("OUT_DIR can be written");
        println!("cargo::rustc-env=SWEEPHAND_PRELOAD={}", none.display());
        return;
    }
    let sources = ["AGENT_ROOT", "PAGER_INTERFACE_ROOT", "POLICY_ROOT", "PAGER_INTERFACE_UFFD"]
        .map(|name| folder(&format!("DEP_SWEEPHAND_{name}")));
    // OUT_DIR is target/PROFILE/build/PACKAGE/out.
    let copy = out.ancestors().nth(4).expect("OUT_DIR is that deep").join("preload");
    fs::create_dir_all(copy.join("src")).expect("target can be written");
    let mut manifest = fs::read_to_string(here.join("preload/manifest.toml")).expect("part of the crate");
    for (mark, source) in ["@AGENT@", "@INTERFACE@", "@POLICY@", "@UFFD@"].into_iter().zip(&sources) {
        manifest = manifest.replace(mark, &source.display().to_string());
        println!("cargo::rerun-if-changed={}", source.display());
    }
    write_if_new(&copy.join("Cargo.toml"), &manifest);
    write_if_new(
        &copy.join("src/lib.rs"),
        &fs::read_to_string(here.join("preload/src/lib.rs")).expect("part of the crate"),
    );
    // A package has a lock file of its own. In the project, all crates share one.
    let lock = [here.join("Cargo.lock"), here.join("../../Cargo.lock")];
    if let Some(lock) = lock.iter().find(|path| path.exists()) {
        println!("cargo::rerun-if-changed={}", lock.display());
        write_if_new(&copy.join("Cargo.lock"), &fs::read_to_string(lock).expect("it exists"));
    }
    println!("cargo::rerun-if-changed={}", here.join("preload").display());
    // The first try is offline. It fails only if the crate is built outside of its workspace.
    if !build(&copy, true) && !build(&copy, false) {
        panic!("the preload library cannot be built: see above");
    }
    let library = copy.join("target/release/libsweephand_preload.so");
    println!("cargo::rustc-env=SWEEPHAND_PRELOAD={}", library.display());
}

fn folder(variable: &str) -> PathBuf {
    PathBuf::from(env::var_os(variable).unwrap_or_else(|| panic!("{variable} is set by Cargo")))
}

fn build(copy: &Path, offline: bool) -> bool {
    let mut cargo = Command::new(env::var_os("CARGO").expect("set by Cargo"));
    cargo.args(["build", "--release", "--manifest-path"]).arg(copy.join("Cargo.toml"));
    cargo.arg("--target-dir").arg(copy.join("target"));
    if offline {
        cargo.arg("--offline");
    }
    // Settings of this build must not reach the other one: flags, wrappers (clippy's), the job
    // server.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let ours = ["CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "RUSTC"];
        if (name.starts_with("CARGO") || name.starts_with("RUST")) && !ours.contains(&name.as_str()) {
            cargo.env_remove(name);
        }
    }
    cargo.status().is_ok_and(|status| status.success())
}

fn write_if_new(path: &Path, text: &str) {
    if fs::read_to_string(path).ok().as_deref() != Some(text) {
        fs::write(path, text).expect("target can be written");
    }
}
