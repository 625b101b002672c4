//! Turns any bytes into operations on a policy and checks every rule after each operation.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sweephand_policy::conformance::fuzz(data));
