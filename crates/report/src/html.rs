//! The report as one HTML file.
//!
//! The file is complete: it loads nothing from the network or from other files. Its only script
//! shows the values under the pointer.

use crate::distance_chart::{self, DistanceChart};
use crate::fault_chart::{self, FaultChart, Frame, heading};
use crate::ink::{Medium, colours};
use crate::map_chart::{Layers, data_uri};
use minijinja::value::Serde;
use minijinja::{Environment, Value, context};
use serde::Serialize;
use serde_json::json;
use std::collections::HashMap;
use sweephand_advice::{Conclusion, SLACK, Sentences, StudiedObject, Study, WORTH_IT, percent};
use sweephand_results::{bytes, grouped};
use sweephand_trace::picture::Picture;

const TEMPLATE: &str = include_str!("html/report.html");
const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/script.js");
/// If the largest number of faults is more than this many times the first touches, the chart starts
/// out logarithmic, because a linear one would show little of the smaller numbers.
const MOST_LINEAR: u64 = 20;
/// The table lists this many objects, those with the most faults, and adds up the others.
const OBJECTS: usize = 20;

/// A report on one or more traces, as an HTML file.
#[derive(Clone, Debug)]
pub struct HtmlReport {
    /// A study of each trace.
    pub studies: Vec<Study>,
    /// The version of Sweephand.
    pub version: String,
    /// The policies asked for.
    pub policies: String,
    /// The memory sizes asked for.
    pub sizes: String,
}

/// One trace, in the form that the template takes.
#[derive(Serialize)]
struct Section {
    name: String,
    command: String,
    facts: String,
    sentences: Sentences,
    launcher: Option<String>,
    notes: Vec<String>,
    faults: HashMap<&'static str, String>,
    values: String,
    /// Whether the fault chart is logarithmic at first.
    logarithmic: bool,
    selected: usize,
    last_size: usize,
    memory: String,
    records: String,
    map: Map,
    parts: Vec<Map>,
    objects: Objects,
    distances: HashMap<&'static str, String>,
    /// A note on the references that the reuse distances do not include.
    left_out: Option<String>,
    origin: String,
}

/// A picture of page against time.
#[derive(Serialize)]
struct Map {
    name: String,
    read: String,
    written: String,
}

#[derive(Serialize)]
struct Objects {
    at: String,
    policies: Vec<String>,
    /// The heading of the column with the faults that OPT would save, if there is such a column.
    gain: Option<String>,
    rows: Vec<ObjectRow>,
}

#[derive(Default, Serialize)]
struct ObjectRow {
    name: String,
    size: String,
    pages: String,
    lives: String,
    faults: Vec<String>,
    gain: String,
    /// The length of the bar that shows the gain, in percent of the longest bar.
    bar: String,
}

impl HtmlReport {
    /// The report of this version on some traces, with the policies and memory sizes asked for.
    pub fn new(studies: Vec<Study>, policies: String, sizes: String) -> Self {
        Self { studies, version: env!("CARGO_PKG_VERSION").to_string(), policies, sizes }
    }

    /// The text of the file.
    pub fn render(&self) -> String {
        let mut environment = Environment::new();
        environment.add_template("report.html", TEMPLATE).expect("the template is part of this crate");
        let template = environment.get_template("report.html").expect("added above");
        let title = match &self.studies[..] {
            [study] => study.curves.name.clone(),
            studies => format!("{} traces", studies.len()),
        };
        let html = template.render(context! {
            title,
            style => html_style(),
            script => SCRIPT,
            // With a single trace, its heading is the heading of the whole report.
            level => if self.studies.len() == 1 { 1 } else { 2 },
            studies => Value::from(Serde(self.studies.iter().map(section).collect::<Vec<_>>())),
            version => self.version.clone(),
            policies => self.policies.clone(),
            sizes => self.sizes.clone(),
            slack => percent(SLACK),
            worth_it => percent(WORTH_IT),
        });
        html.expect("the template accepts these values")
    }
}

/// The style sheet that all of Sweephand's HTML files share, for light and dark.
pub fn html_style() -> String {
    style_sheet() + STYLE
}

/// A variable for each colour, for light and dark.
fn style_sheet() -> String {
    let variables = |value: fn((&'static str, &'static str, &'static str)) -> &'static str| -> String {
        colours().map(|colour| format!("--{}:{};", colour.0, value(colour))).collect()
    };
    format!(
        ":root{{{}}}@media(prefers-color-scheme:dark){{:root{{{}}}}}",
        variables(|(_, light, _)| light),
        variables(|(_, _, dark)| dark)
    )
}

/// A chart at two widths and two scales. The style sheet shows one of the four.
fn variants(draw: impl Fn(Frame, bool) -> String, table: String) -> HashMap<&'static str, String> {
    HashMap::from([
        ("wide_linear", draw(Frame::WIDE, false)),
        ("wide_logarithmic", draw(Frame::WIDE, true)),
        ("narrow_linear", draw(Frame::NARROW, false)),
        ("narrow_logarithmic", draw(Frame::NARROW, true)),
        ("table", table),
    ])
}

fn section(study: &Study) -> Section {
    let curves = &study.curves;
    let trace = &curves.trace;
    let page_bytes = trace.page_bytes;
    let fault_chart =
        |frame, logarithmic| FaultChart { study: curves, logarithmic, frame, medium: Medium::Html }.svg();
    let distance_chart = |frame: Frame, logarithmic| {
        let (name, distances) = (&curves.name[..], &study.distances);
        DistanceChart { name, distances, page_bytes, logarithmic, frame, medium: Medium::Html }.svg()
    };
    let instructions =
        trace.instructions.map_or(String::new(), |count| format!(" in {} instructions", grouped(count)));
    let memory = bytes(trace.distinct_pages * page_bytes);
    let mut with_pictures: Vec<&StudiedObject> =
        study.objects.objects.iter().filter(|object| object.picture.is_some()).collect();
    // Objects with as many pages stay in the order of their allocation.
    with_pictures.sort_by_key(|object| {
        let born = object.object.as_ref().map(|known| known.from_record);
        (std::cmp::Reverse(object.counts.pages), born)
    });
    let part =
        |object: &StudiedObject| map(name(object, page_bytes), object.picture.as_ref().expect("filtered"));
    let most = curves.curves.curves.iter().flat_map(|curve| &curve.faults).copied().max().unwrap_or_default();
    let left_out = study.distances.left_out;
    Section {
        name: curves.name.clone(),
        command: if curves.command.is_empty() { curves.program.clone() } else { curves.command.join(" ") },
        facts: format!(
            "{} references to {} pages ({memory}){instructions}",
            grouped(trace.references),
            grouped(trace.distinct_pages)
        ),
        sentences: curves.conclusion.sentences(&curves.curves),
        launcher: curves.launcher.clone(),
        notes: curves.notes.clone(),
        faults: variants(fault_chart, fault_chart::table(curves)),
        values: values(study).to_string().replace('<', "\\u003c"),
        logarithmic: most > MOST_LINEAR * curves.curves.first_touch_faults,
        selected: curves.telling_size(),
        last_size: curves.curves.memory_pages.len() - 1,
        memory,
        records: grouped(trace.records),
        map: map(String::new(), &study.picture),
        parts: with_pictures.into_iter().map(part).collect(),
        objects: objects(study),
        distances: variants(distance_chart, distance_chart::table(&study.distances, page_bytes)),
        left_out: (left_out > 0).then(|| {
            let window = trace.window.max(1);
            format!(
                "{} more references are not in the trace: each within {window} pages of the one before.",
                grouped(left_out)
            )
        }),
        origin: format!("{}, checksum {}, {} records", trace.trace, trace.checksum, grouped(trace.records)),
    }
}

/// The values that the script shows under the pointer.
fn values(study: &Study) -> serde_json::Value {
    let curves = &study.curves.curves;
    let lines: Vec<serde_json::Value> = curves
        .curves
        .iter()
        .map(|curve| {
            let faults: Vec<String> = curve.faults.iter().copied().map(grouped).collect();
            json!({ "policy": curve.policy, "faults": faults })
        })
        .collect();
    let headings: Vec<_> = (0..curves.memory_pages.len()).map(|size| heading(&study.curves, size)).collect();
    json!({ "headings": headings, "lines": lines })
}

fn map(name: String, picture: &Picture) -> Map {
    let layers = Layers::of(picture);
    Map { name, read: data_uri(&layers.read), written: data_uri(&layers.written) }
}

/// A name for an object, made from its kind, size and address.
fn name(object: &StudiedObject, page_bytes: u64) -> String {
    object.object.as_ref().map_or("no object: stack, globals, small blocks".into(), |known| {
        format!("{} of {} at {:#x}", known.kind, bytes(object.counts.pages * page_bytes), known.address)
    })
}

fn objects(study: &Study) -> Objects {
    let curves = &study.curves;
    let Conclusion { headroom, .. } = curves.conclusion;
    let policies: Vec<String> =
        study.objects.policies.iter().map(|policy| curves.curves.curves[*policy].policy.clone()).collect();
    // The first policy is CLOCK, or the one in its place; the last is OPT.
    let gains = headroom.is_some() && policies.len() > 1;
    let (first, last) = (0, policies.len() - 1);
    let saved = |faults: &[u64]| faults[first] as i64 - faults[last] as i64;
    let share = |record: u64| format!("{:.0}%", 100.0 * record as f64 / curves.trace.records.max(1) as f64);
    let faults_of = |object: &StudiedObject| -> Vec<u64> {
        object.counts.faults.iter().map(|faults| faults.faults).collect()
    };
    let row = |name: String, size: String, pages: u64, lives: String, faults: &[u64]| ObjectRow {
        name,
        size,
        pages: grouped(pages),
        lives,
        faults: faults.iter().copied().map(grouped).collect(),
        gain: saved(faults).to_string(),
        bar: String::new(),
    };
    let all = &study.objects.objects;
    let mut rows: Vec<(i64, ObjectRow)> = all
        .iter()
        .take(OBJECTS)
        .map(|object| {
            let faults = faults_of(object);
            let (name, size, lives) = object.object.as_ref().map_or_else(
                || ("no object: stack, globals, small blocks".into(), String::new(), "0% to end".into()),
                |known| {
                    let end = known.to_record.map_or("end".into(), share);
                    (
                        format!("{} at {:#x}", known.kind, known.address),
                        bytes(known.length_bytes),
                        format!("{} to {end}", share(known.from_record)),
                    )
                },
            );
            (saved(&faults), row(name, size, object.counts.pages, lives, &faults))
        })
        .collect();
    if let Some(others) = all.get(OBJECTS..).filter(|others| !others.is_empty()) {
        let mut faults = vec![0; policies.len()];
        for object in others {
            faults.iter_mut().zip(faults_of(object)).for_each(|(sum, faults)| *sum += faults);
        }
        let pages = others.iter().map(|object| object.counts.pages).sum();
        let name = format!("{} others", grouped(others.len() as u64));
        let size =
            others.iter().filter_map(|object| object.object.as_ref()).map(|object| object.length_bytes).sum();
        rows.push((saved(&faults), row(name, bytes(size), pages, String::new(), &faults)));
    }
    let most = rows.iter().map(|(saved, _)| *saved).max().unwrap_or(0).max(1) as f64;
    let rows = rows.into_iter().map(|(saved, row)| {
        let gain =
            if saved < 0 { format!("-{}", grouped(saved.unsigned_abs())) } else { grouped(saved as u64) };
        ObjectRow { gain, bar: format!("{:.0}", 100.0 * saved.max(0) as f64 / most), ..row }
    });
    Objects {
        at: heading(curves, study.objects.size).trim_start_matches("faults at ").to_string(),
        gain: gains.then(|| format!("{} over {}", policies[first], policies[last])),
        rows: rows.collect(),
        policies: policies.clone(),
    }
}
