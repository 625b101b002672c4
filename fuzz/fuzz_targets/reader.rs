//! Reads any bytes as a trace: the result is a consistent trace or an error.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sweephand_trace::fuzz_reader(data));
