//! `sweephand run --tasks`: several programs under one limit and one policy.
//!
//! Exit status: 0 if every task's status was 0; 1 if some task's was not, with a line for each; 2
//! if a pager could not continue, or the kernel had to end a process.

use crate::live::{forget_stats, limit_bytes, note_on_swap, show};
use crate::run::{Args, Rule};
use crate::stderr::eprint_line;
use anyhow::bail;
use std::io::Write;
use std::process::ExitCode;
use std::thread;
use sweephand_output::Output;
use sweephand_pager::tasks::{
    Control, LoadControlOptions, TaskFile, TaskOptions, TasksStatistics, TasksWatch, run_tasks,
};
use sweephand_policy::task_registry::TaskSpec;
use sweephand_program::Signals;
use sweephand_results::bytes;

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let path = args.tasks.as_deref().expect("the caller looked");
    args.check_backend()?;
    let _awake = args.awake()?;
    let file = TaskFile::open(path)?;
    let limit_bytes = match (&args.memory, &file.memory) {
        (Some(text), _) => limit_bytes("--memory", text)?,
        (None, Some(text)) => limit_bytes(&format!("{}: memory =", path.display()), text)?,
        (None, None) => bail!("{}: says nothing of memory; give it there, or with --memory", path.display()),
    };
    let policy = match &args.policy {
        Some(text) => TaskSpec::parse(text)?,
        None => {
            TaskSpec::parse(&file.policy).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?
        }
    };
    let options = TaskOptions {
        limit_bytes,
        policy: policy.with_theta(Some(file.theta_ms.saturating_mul(1000))),
        load_control: load_control(&file, args.load_control),
        swap: args.swap.clone(),
        prefetch_pages: args.prefetch_pages()?,
        use_ring: args.use_ring(),
    };
    note_on_swap(&args.swap);
    let stats = args.stats.as_deref().map(|stats| Output::create(stats, &[path])).transpose()?;
    forget_stats(args.stats.as_deref())?;
    let (signals, watch) = (Signals::catch()?.into_pipe()?, TasksWatch::default());
    let statistics = thread::scope(|scope| {
        if args.progress {
            scope.spawn(|| show(&watch));
        }
        run_tasks(&file.jobs(), &options, signals, &watch)
    })?;
    if let Some(mut output) = stats {
        serde_json::to_writer_pretty(&mut output, &statistics)?;
        writeln!(output)?;
        output.commit()?;
    }
    let mut worst = 0;
    for task in &statistics.tasks {
        let (words, status) = match (&task.failure, task.exit_status) {
            (Some(failure), _) => (failure.clone(), 2),
            (None, None) => ("was not started".to_string(), 1),
            (None, Some(0)) => continue,
            (None, Some(status)) => (format!("exit status {status}"), 1),
        };
        eprint_line!("sweephand: task '{}': {words}", task.name);
        worst = worst.max(status);
    }
    if statistics.left_behind > 0 {
        eprint_line!("sweephand: {} processes that tasks had left behind were ended", statistics.left_behind);
    }
    if let TasksStatistics { cgroup_oom_kills: kills @ 1.., cgroup, .. } = &statistics {
        let processes = if *kills == 1 { "a process".to_string() } else { format!("{kills} processes") };
        eprint_line!(
            "sweephand: the kernel ended {processes}: all memory of the tasks, with page tables and files, did not fit the \
             cgroup's {}; give them more with --memory",
            bytes(cgroup.limit_bytes.unwrap_or_default())
        );
        worst = 2;
    }
    Ok(ExitCode::from(worst))
}

fn load_control(file: &TaskFile, rule: Option<Rule>) -> LoadControlOptions {
    let of_file = file.load_control.clone();
    match rule {
        None => of_file,
        Some(Rule::Policy) => LoadControlOptions { control: Control::Policy, ..of_file },
        Some(Rule::Feedback) => LoadControlOptions { control: Control::Feedback, ..of_file },
        Some(Rule::None) => {
            LoadControlOptions { control: Control::None, lt_rt: false, most_active: 0, ..of_file }
        }
        Some(Rule::Serial) => {
            LoadControlOptions { control: Control::None, lt_rt: false, most_active: 1, ..of_file }
        }
    }
}
