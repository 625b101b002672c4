//! A policy's name, its source and its parameters, as in `clock-pro:cold=5%,history=3`.

use crate::near::hint;
use alloc::{
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};
use core::any::Any;
use core::fmt;
use core::ops::RangeInclusive;

/// A policy's entry in the registry.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// The name on the command line.
    pub name: &'static str,
    /// What it does, in a few words.
    pub summary: &'static str,
    /// Authors, title, venue and year of the paper, and the section where it matters.
    pub paper: &'static str,
    /// Its parameters, with defaults.
    pub parameters: &'static [Parameter],
    /// Named sets of parameters.
    pub presets: &'static [Preset],
}

/// A parameter of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The name on the command line.
    pub name: &'static str,
    /// The default, as it would be typed.
    pub default: &'static str,
    /// What it sets, with its unit.
    pub meaning: &'static str,
}

/// A named set of arguments, chosen with `preset=NAME`; arguments given beside it win.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The name after `preset=`.
    pub name: &'static str,
    /// What it is for.
    pub meaning: &'static str,
    /// The arguments it stands for.
    pub arguments: &'static [(&'static str, &'static str)],
}

/// The one argument that every policy takes: it is the driver's, not the policy's.
pub(crate) const COLLAPSE: &str = "collapse";
const PRESET: &str = "preset";

/// The arguments given to a policy, checked against its parameters.
#[derive(Clone, Debug)]
pub struct Arguments {
    info: &'static Info,
    given: Vec<(String, String)>,
    /// What makes the policy, if its type does not: the plugin that it comes from.
    maker: Option<Arc<dyn Any + Send + Sync>>,
    /// The share of the pages that the policy is shown: 1 unless they are sampled.
    sampled: f64,
}

/// A number of references that a sample leaves fewer of than this is no time any more.
const LEAST_REFERENCES: f64 = 16.0;

impl Arguments {
    /// Reads `name=value,name=value` (or nothing) for a policy.
    pub fn parse(info: &'static Info, text: &str) -> Result<Self, ArgumentError> {
        let mut arguments = Self { info, given: Vec::new(), maker: None, sampled: 1.0 };
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let Some((name, value)) = item.split_once('=') else {
                return Err(arguments.error(format!("'{item}' is not of the form name=value")));
            };
            if name == PRESET {
                let Some(preset) = info.presets.iter().find(|preset| preset.name == value) else {
                    return Err(arguments.error(format!("there is no preset '{value}'")));
                };
                // Before what is given, which wins because it is found first from the back.
                let preset =
                    preset.arguments.iter().map(|(name, value)| (name.to_string(), value.to_string()));
                arguments.given.splice(0..0, preset);
                continue;
            }
            if name != COLLAPSE && !info.parameters.iter().any(|parameter| parameter.name == name) {
                let known: Vec<_> = info.parameters.iter().map(|parameter| parameter.name).collect();
                let hint = hint(name, known.iter().copied());
                let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
                return Err(
                    arguments.error(format!("there is no parameter '{name}'{hint}; its parameters: {known}"))
                );
            }
            arguments.given.push((name.to_string(), value.to_string()));
        }
        // Policies do not read the driver's own argument, so it is checked here.
        arguments.collapse()?;
        Ok(arguments)
    }

    /// The same arguments, with what makes the policy.
    pub(crate) fn made_by<M: Any + Send + Sync>(self, maker: M) -> Self {
        Self { maker: Some(Arc::new(maker)), ..self }
    }

    /// What makes the policy, if its type does not.
    pub(crate) fn maker<M: Any>(&self) -> Option<&M> {
        self.maker.as_ref()?.downcast_ref()
    }

    /// The policy that the arguments are for.
    pub fn info(&self) -> &'static Info {
        self.info
    }

    /// Whether references that repeat the one before them are hidden from the policy
    /// (`collapse=on`), if it is said for this policy.
    pub fn collapse(&self) -> Result<Option<bool>, ArgumentError> {
        self.given(COLLAPSE).map(|_| self.switch(COLLAPSE)).transpose()
    }

    /// Whether the value of a parameter was given rather than left at its default.
    pub fn is_given(&self, name: &str) -> bool {
        self.given(name).is_some()
    }

    /// An `on`/`off` parameter, also as `1`/`0`.
    pub fn switch(&self, name: &str) -> Result<bool, ArgumentError> {
        match self.value(name) {
            "on" | "1" => Ok(true),
            "off" | "0" => Ok(false),
            other => Err(self.bad(name, other, "on or off")),
        }
    }

    /// One of several words.
    pub fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<T, ArgumentError> {
        let value = self.value(name);
        match choices.iter().find(|(word, _)| *word == value) {
            Some(&(_, choice)) => Ok(choice),
            None => {
                let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
                Err(self.bad(name, value, &words.join(" or ")))
            }
        }
    }

    /// A number of pages (`20` or `20p`) or a share of `frames` (`5%`, rounded to the nearest page
    /// by `rounding`). Of a sample's pages the number is in proportion, rounded to the nearest, but
    /// at least 1 unless it was 0.
    pub fn pages(&self, name: &str, frames: usize, rounding: Rounding) -> Result<usize, ArgumentError> {
        let value = self.value(name);
        let parsed = match value.strip_suffix('%') {
            Some(share) => {
                let share = share.parse().ok().filter(|share| (0.0..=100.0).contains(share));
                share.map(|share: f64| rounding.apply(share * frames as f64 / 100.0))
            }
            None => {
                value.strip_suffix('p').unwrap_or(value).parse().ok().map(|pages| self.sampled_pages(pages))
            }
        };
        parsed.ok_or_else(|| self.bad(name, value, "a number of pages (20p) or a share of memory (5%)"))
    }

    /// A whole number within a range.
    pub fn whole(&self, name: &str, range: RangeInclusive<u64>) -> Result<u64, ArgumentError> {
        let value = self.value(name);
        let parsed = value.parse().ok().filter(|number| range.contains(number));
        parsed.ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            let wanted = match *most {
                u64::MAX => format!("a whole number of {least} or more"),
                most => format!("a whole number from {least} to {most}"),
            };
            self.bad(name, value, &wanted)
        })
    }

    fn sampled_pages(&self, pages: usize) -> usize {
        if self.sampled < 1.0 && pages > 0 {
            Rounding::Nearest.apply(pages as f64 * self.sampled).max(1)
        } else {
            pages
        }
    }

    /// A time in references: of those to a sample's pages, in proportion. An error if these are too
    /// few.
    pub fn references(&self, name: &str) -> Result<u64, ArgumentError> {
        let references = self.whole(name, 0..=u64::MAX)?;
        if self.sampled == 1.0 || references == 0 {
            return Ok(references);
        }
        let sampled = references as f64 * self.sampled;
        if sampled < LEAST_REFERENCES {
            let value = self.value(name);
            let share = 100.0 * self.sampled;
            return Err(self.error(format!(
                "{name}={value}: a sample of {share:.3}% of the pages has too few references in that time; sample more"
            )));
        }
        Ok((sampled + 0.5) as u64)
    }

    /// A rate for each reference: larger for those to a sample's pages, which are fewer.
    pub fn per_reference(&self, rate: f64) -> f64 {
        rate / self.sampled
    }

    /// The arguments of the same policy when it is shown the references to a share of the pages
    /// only (above 0, up to 1), in a memory smaller in proportion: what is given in pages or
    /// references becomes fewer, and `collapse` is off, as what repeats the reference before it is
    /// known before the others are left out.
    #[must_use]
    pub fn sampled(self, share: f64) -> Self {
        Self { sampled: share, ..self.with(COLLAPSE, "off".to_string()) }
    }

    /// A factor, at least 0, such as `1.5`.
    pub fn factor(&self, name: &str) -> Result<f64, ArgumentError> {
        let value = self.value(name);
        let parsed = value.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor >= 0.0);
        parsed.ok_or_else(|| self.bad(name, value, "a number of 0 or more"))
    }

    /// The text of a parameter: as given, or its default.
    pub fn value(&self, name: &str) -> &str {
        self.given(name).unwrap_or_else(|| {
            let parameter = self.info.parameters.iter().find(|parameter| parameter.name == name);
            parameter.unwrap_or_else(|| panic!("{} declares no parameter {name}", self.info.name)).default
        })
    }

    /// The arguments with one more, or another value for it, as if it had been typed last.
    pub(crate) fn with(mut self, name: &'static str, value: String) -> Self {
        self.given.push((name.to_string(), value));
        self
    }

    /// An error about a parameter's value.
    pub fn bad(&self, name: &str, value: &str, wanted: &str) -> ArgumentError {
        self.error(format!("{name}={value}: {name} takes {wanted}"))
    }

    fn given(&self, name: &str) -> Option<&str> {
        self.given.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    fn error(&self, reason: String) -> ArgumentError {
        ArgumentError { policy: self.info.name.to_string(), reason }
    }
}

/// How a share of memory becomes a whole number of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounding {
    /// Towards zero.
    Down,
    /// To the nearest.
    Nearest,
    /// Away from zero.
    Up,
}

impl Rounding {
    fn apply(self, pages: f64) -> usize {
        match self {
            Rounding::Down => pages as usize,
            Rounding::Nearest => (pages + 0.5) as usize,
            Rounding::Up => pages as usize + usize::from(pages > (pages as usize) as f64),
        }
    }
}

/// A policy that does not exist, or an argument it does not take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArgumentError {
    /// The policy's name as it was given.
    pub policy: String,
    /// What is wrong, and what would be right.
    pub reason: String,
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy '{}': {}", self.policy, self.reason)
    }
}

impl core::error::Error for ArgumentError {}
