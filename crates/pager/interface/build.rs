//! Tells `crates/pager`, which builds this crate a second time, where its sources and those of its
//! dependencies are.

fn main() {
    let variable = |name| std::env::var(name).expect("set by Cargo");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::metadata=root={}", variable("CARGO_MANIFEST_DIR"));
    // Crates see this of their direct dependencies only, so pass it on.
    println!("cargo::metadata=uffd={}", variable("DEP_SWEEPHAND_UFFD_ROOT"));
}
