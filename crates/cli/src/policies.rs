//! `sweephand policies`: every policy, what it needs, where it runs, its paper, its parameters.
//! Policies for many tasks come last.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;
use sweephand_pager::live_policies;
use sweephand_policy::Info;
use sweephand_policy::registry::{self, Entry, Spec};
use sweephand_policy::task_registry::{self, TASK_POLICIES, TaskEntry};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these policies (comma list)
    #[arg(default_value = "all")]
    names: String,
    /// How to print them
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let entries = listings(&args.names)?;
    let text = match args.format {
        Format::Text => entries.iter().map(text).collect::<Vec<_>>().join("\n"),
        Format::Json => format!("{:#}\n", as_json(&entries)),
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The policies of a comma list, as JSON.
pub fn json_of(names: &str) -> anyhow::Result<serde_json::Value> {
    Ok(as_json(&listings(names)?))
}

fn as_json(entries: &[Listing]) -> serde_json::Value {
    entries.iter().map(json).collect::<Vec<_>>().into()
}

/// What is said of the policies of a comma list.
fn listings(names: &str) -> anyhow::Result<Vec<Listing>> {
    let (for_tasks, others): (Vec<&str>, Vec<&str>) =
        names.split(',').partition(|name| task_registry::find(name.trim()).is_some());
    let all = others.contains(&"all");
    let names: Vec<_> = match others.is_empty() {
        true => Vec::new(),
        false => Spec::parse_list(&others.join(","))?.iter().map(Spec::name).collect(),
    };
    let named = |entry: &&TaskEntry| all || for_tasks.iter().any(|name| name.trim() == entry.info.name);
    let known = registry::entries();
    Ok(known
        .iter()
        .filter(|entry| names.contains(&entry.info.name))
        .map(Listing::of)
        .chain(TASK_POLICIES.iter().filter(named).map(Listing::of_tasks))
        .collect())
}

/// What is said of a policy.
struct Listing {
    info: &'static Info,
    /// What it has to be shown, in words.
    needs: &'static str,
    /// Where it runs, in words.
    runs: &'static str,
    runs_live: bool,
    /// Why it cannot be told from a sample of the pages, if it cannot.
    not_sampled: Option<&'static str>,
}

impl Listing {
    fn of(entry: &Entry) -> Self {
        let needs = match entry.model {
            "vm" => "faults and reference bits",
            "exact" => "every reference",
            _ => "every reference and the next use of its page",
        };
        let runs_live = runs_live(entry.info);
        let runs = if runs_live { "simulated or live" } else { "simulated" };
        Self { info: entry.info, needs, runs, runs_live, not_sampled: entry.not_sampled }
    }

    fn of_tasks(entry: &TaskEntry) -> Self {
        Self {
            info: entry.info,
            needs: entry.needs,
            runs: if runs_live(entry.info) {
                "with many tasks (multiprogram) or live"
            } else {
                "with many tasks (multiprogram)"
            },
            runs_live: runs_live(entry.info),
            not_sampled: None,
        }
    }
}

/// Whether `sweephand run` takes it.
fn runs_live(info: &Info) -> bool {
    live_policies().any(|name| name == info.name)
}

fn text(entry: &Listing) -> String {
    let info = entry.info;
    let mut text = format!("{}: {}\n", info.name, info.summary);
    let mut line = |name: &str, value: &str| writeln!(text, "    {name:<10} {value}").expect("a string");
    line("needs", entry.needs);
    line("runs", entry.runs);
    if let Some(reason) = entry.not_sampled {
        line("sampled", &format!("no: {reason}"));
    }
    line("paper", info.paper);
    for parameter in info.parameters {
        line("parameter", &format!("{}={}  {}", parameter.name, parameter.default, parameter.meaning));
    }
    for preset in info.presets {
        let stands_for: Vec<_> =
            preset.arguments.iter().map(|(name, value)| format!("{name}={value}")).collect();
        line("preset", &format!("preset={}  {} ({})", preset.name, preset.meaning, stands_for.join(",")));
    }
    text
}

fn json(entry: &Listing) -> serde_json::Value {
    let info = entry.info;
    let parameters: Vec<_> = info
        .parameters
        .iter()
        .map(|p| serde_json::json!({ "name": p.name, "default": p.default, "meaning": p.meaning }))
        .collect();
    let presets: Vec<_> = info
        .presets
        .iter()
        .map(|preset| {
            let arguments: serde_json::Map<_, _> =
                preset.arguments.iter().map(|(name, value)| (name.to_string(), (*value).into())).collect();
            serde_json::json!({ "name": preset.name, "meaning": preset.meaning, "arguments": arguments })
        })
        .collect();
    serde_json::json!({
        "name": info.name,
        "summary": info.summary,
        "paper": info.paper,
        "needs": entry.needs,
        "runs_live": entry.runs_live,
        "not_sampled": entry.not_sampled,
        "parameters": parameters,
        "presets": presets,
    })
}
