//! The `sweephand` command as a program.

use std::process::ExitCode;
use sweephand_cli::Home;

fn main() -> ExitCode {
    sweephand_cli::main(std::env::args_os(), &Home::of_this_program())
}
