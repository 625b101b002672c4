//! `watch --listen`: the last epoch and the curve as text for Prometheus, over HTTP.
//!
//! Only programs of this machine can connect. One request is answered after the other. It may have
//! [`MOST_BYTES`] and take [`PATIENCE`], so that a client that says nothing, or says too much, does
//! not hold up the next one for long. A page of a browser that has itself pointed here by its own
//! name is refused by that name.

use super::show::{Names, Show, ShowService};
use anyhow::Context;
use std::fmt::{Display, Write as _};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use sweephand_pager::PAGE_BYTES;
use sweephand_watch::{Epoch, FaultCost, History, SLOWDOWN, ServiceEpoch, ServiceWatching, Watching};

/// A request has at most this many bytes.
const MOST_BYTES: usize = 8 << 10;
/// A request and its answer each take at most this long.
const PATIENCE: Duration = Duration::from_secs(2);
/// Where accepting fails (no descriptors are left, say), it is tried again after this time.
const PAUSE: Duration = Duration::from_millis(200);
/// Memory sizes of the curve, as parts of all pages that are known.
const SHARES: [f64; 8] = [0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0];

/// The answer before the first epoch is over.
const NOTHING_YET: &str = "no epoch is over yet\n";

/// An address that only this machine reaches.
pub(crate) fn loopback(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => Ok(address),
        Ok(_) => Err("only this machine may connect: write 127.0.0.1:PORT or [::1]:PORT".to_string()),
        Err(_) => Err("write an address with a port, as in 127.0.0.1:9877".to_string()),
    }
}

/// What is told.
pub(super) struct Exporter {
    page: Arc<Mutex<String>>,
    /// What is watched, in the user's words.
    target: String,
    /// What a fault costs, if the device is known.
    cost: Option<FaultCost>,
}

/// An epoch, of a process or of a service.
struct Snapshot<'a> {
    history: &'a History,
    length: Duration,
    cost: Duration,
    processes: u64,
    resident_pages: u64,
    used_pages: u64,
    unknown_pages: u64,
}

impl Exporter {
    /// Answers from now on. Where: a port of 0 is some free one.
    pub(super) fn start(
        address: SocketAddr,
        target: String,
        cost: Option<FaultCost>,
    ) -> anyhow::Result<(Self, SocketAddr)> {
        let failed = || format!("--listen {address}: cannot listen there");
        let listener = TcpListener::bind(address).with_context(failed)?;
        let address = listener.local_addr().with_context(failed)?;
        let page = Arc::new(Mutex::new(String::new()));
        let shared = Arc::clone(&page);
        // It ends with the command.
        let serve = move || {
            loop {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let text = || shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
                        // A client that is gone, or too slow, has no answer.
                        let _ = answer(&stream, text);
                    }
                    Err(_) => thread::sleep(PAUSE),
                }
            }
        };
        thread::Builder::new().name("listen".to_string()).spawn(serve).with_context(failed)?;
        Ok((Self { page, target, cost }, address))
    }

    fn tell(&self, now: &Snapshot) {
        let text = self.text(now);
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    /// The text, in Prometheus' format (version 0.0.4).
    fn text(&self, now: &Snapshot) -> String {
        let history = now.history;
        let mut text = Text(String::new());
        let target = self.target.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let info = format!("version=\"{}\",target=\"{target}\"", env!("CARGO_PKG_VERSION"));
        text.metric("info", "gauge", "What is watched.", [(info, 1)]);
        let mut gauge = |name, help, value: f64| text.metric(name, "gauge", help, [(String::new(), value)]);
        let bytes = |pages: u64| (pages * PAGE_BYTES) as f64;
        gauge("epochs", "Epochs so far.", history.epochs() as f64);
        gauge(
            "watched_seconds",
            "From the start of the watch to the last look.",
            history.watched().as_secs_f64(),
        );
        gauge("processes", "Processes in the last epoch.", now.processes as f64);
        gauge("resident_bytes", "Memory that was mapped at the last look.", bytes(now.resident_pages));
        gauge("used_bytes", "Memory that was used in the last epoch.", bytes(now.used_pages));
        let minute = history.working_set(Duration::from_secs(60));
        gauge("used_last_minute_bytes", "Memory that was used in the last minute.", bytes(minute));
        gauge(
            "unknown_bytes",
            "Memory of which it is not known whether it was used.",
            bytes(now.unknown_pages),
        );
        gauge("epoch_seconds", "How long the last epoch was.", now.length.as_secs_f64());
        gauge("cost_seconds", "Processor time that the last look has cost.", now.cost.as_secs_f64());
        if let Some(cost) = &self.cost {
            let enough = history.enough(cost.allowed_faults(history.watched(), SLOWDOWN) as u64);
            let label = |bound| format!("slowdown=\"{SLOWDOWN}\",bound=\"{bound}\"");
            let values =
                [(label("at_least"), bytes(enough.at_least)), (label("at_most"), bytes(enough.at_most))];
            text.metric("least_memory_bytes", "gauge", "The least memory for a slowdown under LRU.", values);
        }
        let size = |share: f64| (history.known_pages() as f64 * share).ceil() as u64;
        let label = |share: f64| format!("share=\"{share}\"");
        let sizes = SHARES.map(|share| (label(share), bytes(size(share))));
        text.metric(
            "curve_memory_bytes",
            "gauge",
            "Memory sizes: shares of what was used in the watch.",
            sizes,
        );
        let bounds = SHARES.map(|share| (label(share), history.faults(size(share))));
        let least =
            bounds.iter().map(|(share, bounds)| (format!("{share},bound=\"at_least\""), bounds.at_least));
        let most = bounds
            .iter()
            .filter_map(|(share, bounds)| Some((format!("{share},bound=\"at_most\""), bounds.at_most?)));
        let help = "Faults of LRU at these sizes so far, on pages used before.";
        text.metric("lru_faults", "gauge", help, least.chain(most));
        text.0
    }
}

/// A text in Prometheus' format.
struct Text(String);

impl Text {
    fn metric<V: Display>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        values: impl IntoIterator<Item = (String, V)>,
    ) {
        let _ = writeln!(self.0, "# HELP sweephand_{name} {help}\n# TYPE sweephand_{name} {kind}");
        for (labels, value) in values {
            let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
            let _ = writeln!(self.0, "sweephand_{name}{labels} {value}");
        }
    }
}

/// Answers one request.
fn answer(mut stream: &TcpStream, text: impl FnOnce() -> String) -> io::Result<()> {
    let (status, body) = match request(stream)? {
        Some(request) => match refusal(&request) {
            Some(status) => (status, format!("{status}\n")),
            None => match text() {
                text if text.is_empty() => ("503 Service Unavailable", NOTHING_YET.to_string()),
                text => ("200 OK", text),
            },
        },
        None => ("431 Request Header Fields Too Large", String::new()),
    };
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    // One write, so that one timeout holds for all of it: it fits into what the kernel keeps.
    stream.write_all((head + &body).as_bytes())
}

/// The head of a request. `None`: it is too long.
fn request(mut stream: &TcpStream) -> io::Result<Option<String>> {
    let deadline = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut part = [0; 1 << 10];
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => head.extend_from_slice(&part[..length]),
        }
        if head.len() > MOST_BYTES {
            return Ok(None);
        }
    }
    Ok(Some(String::from_utf8_lossy(&head).into_owned()))
}

/// Why a request is not answered.
fn refusal(request: &str) -> Option<&'static str> {
    let mut lines = request.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let host =
        lines.filter_map(|line| line.split_once(':')).find(|(name, _)| name.eq_ignore_ascii_case("host"));
    if host.is_some_and(|(_, host)| !is_here(host.trim())) {
        return Some("403 Forbidden");
    }
    match (method, path.split('?').next()) {
        ("GET", Some("/metrics" | "/")) => None,
        ("GET", _) => Some("404 Not Found"),
        _ => Some("405 Method Not Allowed"),
    }
}

/// Whether a host, maybe with a port, is a name of this machine for itself.
fn is_here(host: &str) -> bool {
    let is_loopback = |address: &str| address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || is_loopback(name)
}

/// Shows a watch, and tells it.
pub(super) struct Told<S> {
    pub(super) show: S,
    pub(super) exporter: Option<Exporter>,
}

impl Show for Told<Box<dyn Show>> {
    fn epoch(&mut self, watching: &Watching, epoch: &Epoch) -> io::Result<()> {
        if let Some(exporter) = &self.exporter {
            exporter.tell(&Snapshot {
                history: watching.history(),
                length: epoch.length,
                cost: epoch.cost,
                processes: 1,
                resident_pages: epoch.look.resident_pages,
                used_pages: epoch.look.used_pages(),
                unknown_pages: epoch.look.of_all(epoch.look.unknown_pages),
            });
        }
        self.show.epoch(watching, epoch)
    }

    fn new_program(&mut self, watching: &Watching, name: &str) -> io::Result<()> {
        self.show.new_program(watching, name)
    }

    fn child(&mut self, watching: &Watching, pid: u32, name: &str) -> io::Result<()> {
        self.show.child(watching, pid, name)
    }
}

impl ShowService for Told<&mut dyn ShowService> {
    fn begin(&mut self, watching: &ServiceWatching, names: &Names) -> io::Result<()> {
        self.show.begin(watching, names)
    }

    fn epoch(&mut self, watching: &ServiceWatching, epoch: &ServiceEpoch, names: &Names) -> io::Result<()> {
        if let Some(exporter) = &self.exporter {
            exporter.tell(&Snapshot {
                history: watching.history(),
                length: epoch.length,
                cost: epoch.cost,
                processes: epoch.look.members.len() as u64,
                resident_pages: epoch.look.resident.all(),
                used_pages: epoch.look.used.all(),
                unknown_pages: epoch.look.unknown_pages,
            });
        }
        self.show.epoch(watching, epoch, names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweephand_checks::trying;

    fn exporter() -> (Exporter, SocketAddr) {
        let cost = FaultCost::constant("ssd", 1e-4);
        Exporter::start("127.0.0.1:0".parse().unwrap(), "--unit \"a\"".into(), Some(cost)).unwrap()
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        // If it is too long, the other side may close before all is sent.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn only_this_machine_may_connect() {
        for right in ["127.0.0.1:9877", "127.1.2.3:1", "[::1]:80"] {
            assert_eq!(loopback(right), Ok(right.parse().unwrap()));
        }
        for wrong in ["0.0.0.0:80", "[::]:80", "192.168.0.1:80"] {
            assert!(loopback(wrong).unwrap_err().starts_with("only this machine may connect"), "{wrong}");
        }
        for wrong in ["", "80", ":80", "localhost:80", "127.0.0.1"] {
            assert!(loopback(wrong).unwrap_err().starts_with("write an address"), "{wrong}");
        }
    }

    #[test]
    fn the_last_epoch_is_told_in_prometheus_format() {
        let (exporter, address) = exporter();
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost:9877\r\n\r\n";
        let early = ask(address, request);
        assert!(early.starts_with("HTTP/1.1 503 ") && early.ends_with(NOTHING_YET), "{early}");
        let history = History::default();
        let (length, cost) = (Duration::from_secs(2), Duration::from_millis(3));
        exporter.tell(&Snapshot {
            history: &history,
            length,
            cost,
            processes: 3,
            resident_pages: 10,
            used_pages: 5,
            unknown_pages: 1,
        });
        let answer = ask(address, request);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{answer}");
        for line in [
            "# TYPE sweephand_used_bytes gauge",
            "sweephand_resident_bytes 40960",
            "sweephand_used_bytes 20480",
            "sweephand_unknown_bytes 4096",
            "sweephand_processes 3",
            "sweephand_epoch_seconds 2",
            "sweephand_cost_seconds 0.003",
            "sweephand_least_memory_bytes{slowdown=\"1.05\",bound=\"at_most\"} 0",
            "sweephand_curve_memory_bytes{share=\"0.125\"} 0",
            "sweephand_lru_faults{share=\"1\",bound=\"at_most\"} 0",
        ] {
            assert!(answer.lines().any(|of| of == line), "{line}: {answer}");
        }
        assert!(answer.contains(r#"target="--unit \"a\"""#), "{answer}");
    }

    #[test]
    fn what_is_no_request_for_metrics_is_refused() {
        let (_exporter, address) = exporter();
        let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(MOST_BYTES));
        for (request, status) in [
            ("GET /other HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("GET /metrics HTTP/1.1\r\nHost: example.org:9877\r\n\r\n", "403"),
            ("GET /metrics HTTP/1.1\r\nHost: [::1]:9877\r\n\r\n", "503"),
            ("GET /metrics?x=1 HTTP/1.0\r\nhost: 127.0.0.1\r\n\r\n", "503"),
            ("\r\n\r\n", "405"),
        ] {
            let _input = trying(|| request.to_owned());
            let answer = ask(address, request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        }
        let answer = ask(address, &long);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }

    /// A client that says nothing has its two seconds, and then the next one is answered.
    #[test]
    fn a_client_that_says_nothing_is_given_up() {
        let (_exporter, address) = exporter();
        let silent = TcpStream::connect(address).unwrap();
        let began = Instant::now();
        assert!(ask(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503 "));
        assert!(began.elapsed() > PATIENCE / 2, "one request at a time");
        drop(silent);
    }
}
