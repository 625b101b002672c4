//! The `sweephand` command as a program.

mod allocator;

use std::process::ExitCode;
use sweephand_cli::Home;

#[global_allocator]
static ALLOCATOR: allocator::OneLine = allocator::OneLine;

fn main() -> ExitCode {
    sweephand_cli::main(std::env::args_os(), &Home::of_this_program())
}
