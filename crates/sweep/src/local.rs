//! The executor with processes of this machine.
//!
//! A worker is a process, so a kill or a lack of memory costs only one cell, which a new worker
//! tries again. Each worker has a thread that hands it cells and waits for the answers. The
//! caller's thread gives out cells and receives rows.

use crate::worker::Answer;
use crate::{Cell, Cells, Dataset, Error, Failure, VERSION};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use sweephand_results::SweepRow;
use sweephand_sim::bounded_threads;

/// How often the caller is asked whether to go on.
const PATIENCE: Duration = Duration::from_millis(100);

/// Options of the executor.
#[derive(Clone, Debug)]
pub struct Options {
    /// Worker processes; by default one a processor. There are never more than processors, nor
    /// more than cells ([`bounded_threads`]).
    pub workers: Option<usize>,
    /// How often a cell that failed is tried again, unless it would fail again.
    pub retries: u32,
    /// The program that does [`crate::worker::serve`], and its arguments.
    pub command: Vec<OsString>,
    /// Variables that are added to their environment.
    pub environment: Vec<(OsString, OsString)>,
}

/// The result of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Cells computed.
    pub computed: usize,
    /// Cells that failed for good; at the end by trace, policy and memory size.
    pub failures: Vec<Failure>,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

/// Computes the cells at these places. `watch` is called now and then with what has been done so
/// far; it says whether to go on. Whatever ends this, the rows that came in are in the dataset.
pub fn run(
    cells: &Cells,
    missing: &[usize],
    dataset: &mut Dataset,
    options: &Options,
    watch: &mut dyn FnMut(&Summary) -> bool,
) -> Result<Summary, Error> {
    let workers = bounded_threads(options.workers, missing.len());
    let (say, answers) = channel();
    let mut driver = Driver {
        cells,
        dataset,
        retries: options.retries,
        queue: missing.iter().map(|&cell| Task { cell, attempts: 0 }).collect(),
        in_flight: vec![None; workers],
        crew: (0..workers).map(|number| Worker::new(number, options, &say)).collect(),
        summary: Summary::default(),
    };
    let result = driver.drive(&answers, watch);
    let at_once = driver.summary.stopped || result.is_err();
    driver.crew.drain(..).for_each(|worker| worker.end(at_once));
    driver.dataset.fold()?;
    let mut summary = driver.summary;
    summary.failures.sort_by(|a, b| (&a.trace, &a.policy, &a.memory).cmp(&(&b.trace, &b.policy, &b.memory)));
    result.map(|()| summary)
}

/// A cell to compute.
#[derive(Clone, Copy, Debug)]
struct Task {
    cell: usize,
    /// How often it was tried before.
    attempts: u32,
}

/// What a worker's thread says: its number, and what came of its cell.
type Said = (usize, Outcome);

enum Outcome {
    Row(Box<SweepRow>),
    /// The cell failed, or took the worker along.
    Failed(String),
    /// The cell will fail whenever it is tried.
    Refused(String),
    /// The cell's trace is not the one planned with.
    Wrong(String),
    /// There are no workers to be had.
    NoWorker(String),
}

/// What the caller's thread has in its hands.
struct Driver<'a> {
    cells: &'a Cells,
    dataset: &'a mut Dataset,
    retries: u32,
    queue: VecDeque<Task>,
    /// By worker: what it is busy with.
    in_flight: Vec<Option<Task>>,
    crew: Vec<Worker>,
    summary: Summary,
}

impl Driver<'_> {
    fn drive(
        &mut self,
        answers: &Receiver<Said>,
        watch: &mut dyn FnMut(&Summary) -> bool,
    ) -> Result<(), Error> {
        (0..self.crew.len()).for_each(|worker| self.hand_out(worker));
        while self.in_flight.iter().any(Option::is_some) {
            if !watch(&self.summary) {
                self.summary.stopped = true;
                return Ok(());
            }
            match answers.recv_timeout(PATIENCE) {
                Ok(said) => self.take_in(std::iter::once(said).chain(answers.try_iter()))?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("workers live as long as the crew"),
            }
        }
        watch(&self.summary);
        Ok(())
    }

    /// Gives a worker its next cell.
    fn hand_out(&mut self, worker: usize) {
        self.in_flight[worker] = self.queue.pop_front();
        if let Some(task) = self.in_flight[worker] {
            self.crew[worker].give(&self.cells.get(task.cell));
        }
    }

    /// Takes in all that has been said meanwhile: one sync for all rows.
    fn take_in(&mut self, said: impl Iterator<Item = Said>) -> Result<(), Error> {
        let mut rows = Vec::new();
        let mut no_worker = None;
        for (worker, outcome) in said {
            let task = self.in_flight[worker].take().expect("a worker is busy until it answers");
            match outcome {
                Outcome::Row(row) => rows.push(*row),
                Outcome::Failed(_) if task.attempts < self.retries => {
                    self.queue.push_back(Task { attempts: task.attempts + 1, ..task });
                }
                Outcome::Failed(error) | Outcome::Refused(error) => {
                    self.fail(task, task.attempts + 1, &error)?;
                }
                Outcome::Wrong(error) => {
                    self.fail(task, task.attempts + 1, &error)?;
                    // What is left of the trace would be read again and again to find the same.
                    let cells = self.cells;
                    let trace = cells.get(task.cell).trace;
                    let of_it = |other: &Task| cells.get(other.cell).trace == trace;
                    let (of_it, others): (Vec<_>, Vec<_>) = self.queue.drain(..).partition(of_it);
                    self.queue = others.into();
                    of_it.into_iter().try_for_each(|task| self.fail(task, task.attempts, &error))?;
                }
                Outcome::NoWorker(error) => no_worker = Some(error),
            }
            self.hand_out(worker);
        }
        self.summary.computed += rows.len();
        self.dataset.add(rows)?;
        no_worker.map_or(Ok(()), |error| Err(Error::Other(error)))
    }
}

impl Driver<'_> {
    /// A cell is given up.
    fn fail(&mut self, task: Task, attempts: u32, error: &str) -> Result<(), Error> {
        let failure = Failure::of(&self.cells.get(task.cell), attempts, error);
        self.dataset.fail(&failure)?;
        self.summary.failures.push(failure);
        Ok(())
    }
}

/// A worker process, replaced when it ends, and the thread that talks with it.
struct Worker {
    /// Lines for the process.
    cells: Sender<String>,
    /// The process, while there is one.
    process: Arc<Mutex<Option<Child>>>,
    thread: JoinHandle<()>,
}

impl Worker {
    fn new(number: usize, options: &Options, say: &Sender<Said>) -> Self {
        let (cells, lines) = channel::<String>();
        let process = Arc::new(Mutex::new(None));
        let (options, say) = (options.clone(), say.clone());
        let thread = {
            let process = Arc::clone(&process);
            // The process ends with the thread that started it, so the thread stays.
            thread::spawn(move || {
                let mut pipes = None;
                for line in lines {
                    if say.send((number, compute(&line, &mut pipes, &process, &options))).is_err() {
                        break;
                    }
                }
                // Its input is at its end, and it goes.
                drop(pipes);
                reap(&process);
            })
        };
        Self { cells, process, thread }
    }

    fn give(&self, cell: &Cell) {
        let line = serde_json::to_string(cell).expect("words only");
        // A thread that is gone has said why.
        let _ = self.cells.send(line);
    }

    /// Ends the process: when it has nothing to do, or at once.
    fn end(self, at_once: bool) {
        let Self { cells, process, thread } = self;
        drop(cells);
        if at_once && let Some(process) = &mut *process.lock().expect("no panic") {
            let _ = process.kill();
        }
        let _ = thread.join();
    }
}

/// The process's standard input and output.
type Pipes = (ChildStdin, BufReader<ChildStdout>);

/// Lets the worker process compute a line; starts a new process if there is none.
fn compute(
    line: &str,
    pipes: &mut Option<Pipes>,
    process: &Mutex<Option<Child>>,
    options: &Options,
) -> Outcome {
    if pipes.is_none() {
        match start(options, process) {
            Ok(started) => *pipes = Some(started),
            Err(outcome) => return outcome,
        }
    }
    let (input, output) = pipes.as_mut().expect("it was started");
    match writeln!(input, "{line}").and_then(|()| listen(output)) {
        Ok(Answer::Row(row)) => Outcome::Row(row),
        Ok(Answer::Error(error)) => Outcome::Failed(error),
        Ok(Answer::Refused(error)) => Outcome::Refused(error),
        Ok(Answer::Wrong(error)) => Outcome::Wrong(error),
        Ok(Answer::Ready(_)) => Outcome::Failed("the worker said that it is ready, twice".into()),
        Err(_) => {
            *pipes = None;
            Outcome::Failed(format!("the worker {}", ending(reap(process))))
        }
    }
}

/// Starts a process and waits until it is ready.
fn start(options: &Options, process: &Mutex<Option<Child>>) -> Result<Pipes, Outcome> {
    let Options { command, environment, .. } = options;
    let program = command[0].to_string_lossy();
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .envs(environment.iter().cloned())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // Ctrl-C is for the driver, which ends its workers.
        .process_group(0)
        .spawn()
        .map_err(|error| Outcome::NoWorker(format!("{program}: cannot be started as a worker: {error}")))?;
    let input = child.stdin.take().expect("a pipe");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    *process.lock().expect("no panic") = Some(child);
    let error = match listen(&mut output) {
        Ok(Answer::Ready(version)) if version == VERSION => return Ok((input, output)),
        Ok(Answer::Ready(version)) => {
            format!("{program}: is version {version} where this is {VERSION}: use the same one")
        }
        Ok(_) => format!("{program}: is no worker"),
        Err(_) => {
            let status = reap(process);
            let error = format!("{program}: the worker {} before it was ready", ending(status));
            // Who kills a worker may kill it early. One that ends by itself will do so again.
            if status.is_some_and(|status| status.signal().is_some()) {
                return Err(Outcome::Failed(error));
            }
            error
        }
    };
    Err(Outcome::NoWorker(error))
}

fn listen(output: &mut BufReader<ChildStdout>) -> io::Result<Answer> {
    let mut line = String::new();
    output.read_line(&mut line)?;
    // A line without its end is one of a process that was killed.
    Ok(serde_json::from_str(&line)?)
}

/// Waits for a process that is ending.
fn reap(process: &Mutex<Option<Child>>) -> Option<ExitStatus> {
    // Take the child out of the lock first. Until it has ended, another thread must be able to take
    // the lock to kill it.
    let mut child = process.lock().expect("no panic").take()?;
    child.wait().ok()
}

fn ending(status: Option<ExitStatus>) -> String {
    match status.map(|status| (status.signal(), status.code())) {
        Some((Some(9), _)) => "was killed by signal 9 (by someone, or because memory ran out)".into(),
        Some((Some(signal), _)) => format!("was killed by signal {signal}"),
        Some((_, Some(code))) => format!("ended with status {code}"),
        _ => "ended".into(),
    }
}
