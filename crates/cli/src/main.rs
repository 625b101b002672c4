//! The `sweephand` command as a program.

use std::path::PathBuf;
use std::process::ExitCode;
use sweephand_cli::Home;

fn main() -> ExitCode {
    let code = PathBuf::from("/proc/self/exe");
    let command = std::env::current_exe().unwrap_or_else(|_| code.clone());
    sweephand_cli::main(std::env::args_os(), &Home { command, code })
}
