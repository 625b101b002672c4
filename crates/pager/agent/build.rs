//! Tells `crates/pager`, which builds this crate a second time, where its sources are.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::metadata=root={}", std::env::var("CARGO_MANIFEST_DIR").expect("set by Cargo"));
}
