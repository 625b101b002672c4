//! Reads any bytes as one kind of input, the one that `SWEEPHAND_FUZZ_INPUT` names.
#![no_main]

use std::sync::LazyLock;

static INPUT: LazyLock<String> = LazyLock::new(|| {
    let known = sweephand_trace::fuzz_inputs();
    let input = std::env::var("SWEEPHAND_FUZZ_INPUT").unwrap_or_default();
    assert!(known.contains(&input), "SWEEPHAND_FUZZ_INPUT={input}: known are {}", known.join(" "));
    input
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| sweephand_trace::fuzz_input(&INPUT, data));
