//! Where in the program the faults are, and what could be done there: what `advise` adds if the
//! trace says which code does what.

use crate::by_object::{ObjectAdvice, advice_by_object};
use crate::conclusion::percent;
use crate::curve_study::CurveStudy;
use crate::object_study::{ObjectStudy, StudiedObject};
use serde_json::{Value, json};
use std::fmt::{self, Write};
use sweephand_results::{bytes, grouped};
use sweephand_sim::SweepError;
use sweephand_trace::Trace;

/// Faults by line and by object, and advice, at the size at which there is most to gain.
#[derive(Clone, Debug)]
pub struct FaultsInCode {
    /// Faults by object and by line.
    pub objects: ObjectStudy,
    /// What could be done about single objects.
    pub advice: Vec<ObjectAdvice>,
}

impl FaultsInCode {
    /// Those of a trace whose curves are known: two passes.
    ///
    /// # Errors
    /// See [`SweepError`].
    pub fn of(
        trace: &Trace,
        curves: &CurveStudy,
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<Self, SweepError> {
        let objects = ObjectStudy::of(trace, curves, &|share| progress(0.6 * share))?;
        let advice = advice_by_object(trace, curves, &objects, &|share| progress(0.6 + 0.4 * share))?;
        Ok(Self { objects, advice })
    }

    /// All of it, for programs. `curves` are those that it was made with.
    pub fn to_json(&self, curves: &CurveStudy) -> Value {
        tables(curves, &self.objects, &self.advice)
    }

    /// In words: the `most` lines with the most faults, as many places that made the memory that
    /// they are on, all advice, and the calls to make. `curves` are those that it was made with.
    pub fn to_text(&self, curves: &CurveStudy, most: usize) -> String {
        let mut text = String::new();
        self.write(&mut text, curves, most).expect("a string takes all");
        text
    }

    fn write(&self, out: &mut String, curves: &CurveStudy, most: usize) -> fmt::Result {
        let ObjectStudy { size, policies, objects, code } = &self.objects;
        let curves = &curves.curves;
        let memory = bytes(curves.memory_pages[*size] * curves.page_bytes);
        let policy = &curves.curves[policies[0]];
        let all = policy.faults[*size];
        let share = |faults: u64| percent(faults as f64 / all.max(1) as f64);
        let count = |faults: u64| format!("{:>12}  {:>5}", grouped(faults), share(faults));
        if !code.is_empty() {
            let name = &policy.policy;
            writeln!(
                out,
                "{:<9} At {memory}, where there is most to gain, the {} faults under {name} are at these lines:",
                "lines",
                grouped(all)
            )?;
            for line in code.lines().iter().take(most) {
                let inside = line.inside.as_ref().map(|inside| format!(", in {inside}")).unwrap_or_default();
                let on = line.objects.first().filter(|(number, _)| *number > 0).and_then(|(number, _)| {
                    let object = objects.iter().find(|object| object.number == *number)?;
                    Some(format!(", on {}", object.made_at()?))
                });
                let faults = line.faults.first().copied().unwrap_or_default();
                writeln!(out, "{}  {}{inside}{}", count(faults), line.code, on.unwrap_or_default())?;
            }
        }
        let places = self.objects.places();
        if !places.is_empty() {
            writeln!(out, "{:<9} The memory that they are on was made here:", "made at")?;
            for place in places.iter().take(most) {
                let times = match (place.objects, place.small) {
                    (0, _) => ", small".to_owned(),
                    (1, false) => String::new(),
                    (n, small) => {
                        let and = if small { " and small ones" } else { "" };
                        format!(", {} object{}{and}", grouped(n), if n == 1 { "" } else { "s" })
                    }
                };
                let size = bytes(place.pages * curves.page_bytes);
                writeln!(out, "{}  {} ({size}{times})", count(place.faults[0]), place.made_at)?;
            }
        }
        for (at, advice) in self.advice.iter().enumerate() {
            writeln!(out, "{:<9} {}.", if at == 0 { "change" } else { "" }, advice.text)?;
        }
        let calls = self.advice.iter().filter(|advice| advice.call.is_some() && advice.line.is_some());
        for (at, advice) in calls.enumerate() {
            let (call, line) = (advice.call.expect("filtered"), advice.line.as_ref().expect("filtered"));
            writeln!(out, "{:<9} {line}: {call}", if at == 0 { "calls" } else { "" })?;
        }
        Ok(())
    }
}

/// Faults by line, by object, by the place that made the objects, and the advice, for programs.
pub(crate) fn tables(curves: &CurveStudy, objects: &ObjectStudy, advice: &[ObjectAdvice]) -> Value {
    let ObjectStudy { size, policies, objects: studied, code } = objects;
    let names: Vec<&str> = policies.iter().map(|policy| &curves.curves.curves[*policy].policy[..]).collect();
    let by_policy = |faults: &mut dyn Iterator<Item = u64>| -> Value {
        names.iter().zip(faults).map(|(name, faults)| ((*name).to_owned(), json!(faults))).collect()
    };
    let lines: Vec<Value> = code
        .lines()
        .iter()
        .map(|line| {
            json!({
                "line": line.code, "inside": line.inside, "references": line.records,
                "faults": by_policy(&mut line.faults.iter().copied()),
            })
        })
        .collect();
    let made_at_place: Vec<Value> = objects
        .places()
        .iter()
        .map(|place| {
            json!({
                "made_at": place.made_at, "objects": place.objects, "small": place.small, "length_bytes": place.length_bytes,
                "pages": place.pages, "faults": by_policy(&mut place.faults.iter().copied()),
            })
        })
        .collect();
    let objects: Vec<Value> = studied
        .iter()
        .map(|studied| {
            let StudiedObject { number, object, small, counts, .. } = studied;
            json!({
                "object": number,
                "made_at": studied.made_at(),
                "kind": object.as_ref().map(|object| object.kind.name()),
                "small": small.is_some(),
                "address": object.as_ref().map(|object| object.address),
                "length_bytes": object.as_ref().map(|object| object.length_bytes),
                "pages": counts.pages, "references": counts.records,
                "faults": by_policy(&mut counts.faults.iter().map(|faults| faults.faults)),
            })
        })
        .collect();
    json!({
        "trace": curves.trace.trace, "memory_pages": curves.curves.memory_pages[*size],
        "policies": names, "lines": lines, "places": made_at_place, "objects": objects, "advice": advice,
    })
}
