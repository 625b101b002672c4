//! Any bytes are operations on a policy, and every rule holds after each.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sweephand_policy::conformance::fuzz(data));
