//! The policies: `sweephand policies`.

use serde_json::{Map, Value, json};
use std::fmt;
use sweephand_pager_interface::spec::names as live_policies;
use sweephand_policy::registry::{self, Entry, Spec};
use sweephand_policy::task_registry::{self, TASK_POLICIES, TaskEntry};
use sweephand_policy::{ArgumentError, Info};

/// What is said of a policy.
#[derive(Clone, Copy, Debug)]
pub struct PolicyListing {
    info: &'static Info,
    /// What it has to be shown, in words.
    needs: &'static str,
    /// Where it runs, in words.
    runs: &'static str,
    runs_live: bool,
    /// Why it cannot be told from a sample of the pages, if it cannot.
    not_sampled: Option<&'static str>,
}

impl PolicyListing {
    /// Its name, paper and parameters.
    pub fn info(&self) -> &'static Info {
        self.info
    }

    /// Whether `sweephand run` takes it.
    pub fn runs_live(&self) -> bool {
        self.runs_live
    }

    /// Whether it is for many tasks in one memory.
    pub fn is_for_tasks(&self) -> bool {
        task_registry::find(self.info.name).is_some()
    }

    /// Its name, where it runs and what it is: one line of a table of policies.
    pub fn line(&self) -> String {
        let runs = if self.runs.starts_with("with") { "with many tasks" } else { self.runs };
        format!("{:<17} {runs:<17} {}\n", self.info.name, self.info.summary)
    }

    /// The policies of a comma list. Those for many tasks come last.
    pub fn of_names(names: &str) -> Result<Vec<Self>, ArgumentError> {
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
            .map(Self::of)
            .chain(TASK_POLICIES.iter().filter(named).map(Self::of_tasks))
            .collect())
    }

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

    /// The same for programs.
    pub fn to_json(&self) -> Value {
        let info = self.info;
        let parameters: Vec<_> = info
            .parameters
            .iter()
            .map(|p| json!({ "name": p.name, "default": p.default, "meaning": p.meaning }))
            .collect();
        let presets: Vec<_> = info
            .presets
            .iter()
            .map(|preset| {
                let arguments: Map<_, _> = preset
                    .arguments
                    .iter()
                    .map(|(name, value)| (name.to_string(), (*value).into()))
                    .collect();
                json!({ "name": preset.name, "meaning": preset.meaning, "arguments": arguments })
            })
            .collect();
        json!({
            "name": info.name,
            "summary": info.summary,
            "paper": info.paper,
            "needs": self.needs,
            "runs_live": self.runs_live,
            "not_sampled": self.not_sampled,
            "parameters": parameters,
            "presets": presets,
        })
    }
}

/// Whether `sweephand run` takes it.
fn runs_live(info: &Info) -> bool {
    live_policies().any(|name| name == info.name)
}

impl fmt::Display for PolicyListing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.info;
        writeln!(f, "{}: {}", info.name, info.summary)?;
        let mut line = |name: &str, value: &str| writeln!(f, "    {name:<10} {value}");
        line("needs", self.needs)?;
        line("runs", self.runs)?;
        if let Some(reason) = self.not_sampled {
            line("sampled", &format!("no: {reason}"))?;
        }
        line("paper", info.paper)?;
        for parameter in info.parameters {
            line("parameter", &format!("{}={}  {}", parameter.name, parameter.default, parameter.meaning))?;
        }
        for preset in info.presets {
            let stands_for: Vec<_> =
                preset.arguments.iter().map(|(name, value)| format!("{name}={value}")).collect();
            line(
                "preset",
                &format!("preset={}  {} ({})", preset.name, preset.meaning, stands_for.join(",")),
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<&'static str> {
        PolicyListing::of_names(list).unwrap().iter().map(|listing| listing.info().name).collect()
    }

    #[test]
    fn policies_for_many_tasks_come_last() {
        assert_eq!(names("wsclock, opt,lru"), ["opt", "lru", "wsclock"]);
        assert_eq!(names("ws"), ["ws"]);
        let all = names("all");
        assert_eq!(all.len(), registry::entries().len() + TASK_POLICIES.len());
        assert!(PolicyListing::of_names("lru,no-such").is_err());
        let of_tasks = |name: &str| PolicyListing::of_names(name).unwrap()[0].is_for_tasks();
        assert!(of_tasks("wsclock") && !of_tasks("lru"));
    }

    #[test]
    fn listing_says_what_a_policy_sees_and_where_it_runs() {
        let told = |name: &str| {
            let json = PolicyListing::of_names(name).unwrap()[0].to_json();
            (json["needs"].as_str().unwrap().to_owned(), json["runs_live"].as_bool().unwrap())
        };
        assert_eq!(told("clock"), ("faults and reference bits".to_owned(), true));
        assert_eq!(told("lru"), ("every reference".to_owned(), false));
        assert_eq!(told("opt"), ("every reference and the next use of its page".to_owned(), false));
        let listing = PolicyListing::of_names("lru").unwrap()[0];
        assert!(!listing.runs_live() && PolicyListing::of_names("clock").unwrap()[0].runs_live());
        assert!(listing.line().starts_with("lru               simulated         "), "{}", listing.line());
    }
}
