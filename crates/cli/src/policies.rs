//! `sweephand policies`: every policy, what it needs, where it runs, its paper, its parameters.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;
use sweephand_policy::registry::{Entry, POLICIES, Spec};

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
    let names: Vec<_> = Spec::parse_list(&args.names)?.iter().map(Spec::name).collect();
    let entries: Vec<_> = POLICIES.iter().filter(|entry| names.contains(&entry.info.name)).collect();
    let text = match args.format {
        Format::Text => entries.iter().map(|entry| text(entry)).collect::<Vec<_>>().join("\n"),
        Format::Json => {
            let entries: Vec<_> = entries.iter().map(|entry| json(entry)).collect();
            format!("{:#}\n", serde_json::Value::from(entries))
        }
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// What a policy has to be shown, in words.
fn needs(entry: &Entry) -> &'static str {
    match entry.model {
        "vm" => "faults and reference bits",
        "exact" => "every reference",
        _ => "every reference and the next use of its page",
    }
}

fn runs(entry: &Entry) -> &'static str {
    if entry.runs_live { "simulated or live" } else { "simulated" }
}

fn text(entry: &Entry) -> String {
    let info = entry.info;
    let mut text = format!("{}: {}\n", info.name, info.summary);
    let mut line = |name: &str, value: &str| writeln!(text, "    {name:<10} {value}").expect("a string");
    line("needs", needs(entry));
    line("runs", runs(entry));
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

fn json(entry: &Entry) -> serde_json::Value {
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
        "needs": needs(entry),
        "runs_live": entry.runs_live,
        "parameters": parameters,
        "presets": presets,
    })
}
