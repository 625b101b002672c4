//! The `sweephand` command with one more policy.
//!
//! ```sh
//! cargo run --release -p own-policy -- simulate traces/numpy.swt --policy clock,comeback,comeback:memory=3
//! ```

use own_policy::Comeback;
use std::process::ExitCode;
use sweephand_cli::Home;
use sweephand_policy::registry::register;

fn main() -> ExitCode {
    register::<Comeback>();
    sweephand_cli::main(std::env::args_os(), &Home::of_this_program())
}
