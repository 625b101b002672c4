//! The report as one page of HTML that needs nothing else: no network, no files beside it, and, but
//! for the values under the reader's hand, no script.

use crate::conclusion::percent;
use crate::distance_chart::{self, DistanceChart};
use crate::fault_chart::{self, FaultChart, Frame, heading};
use crate::ink::{Medium, colours};
use crate::map_chart::{Layers, data_uri};
use crate::{Conclusion, SLACK, StudiedObject, Study, WORTH_IT, bytes, grouped};
use minijinja::value::Serde;
use minijinja::{Environment, Value, context};
use serde::Serialize;
use serde_json::json;
use std::collections::HashMap;
use sweephand_trace::picture::Picture;

const TEMPLATE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");
/// A chart with faults of more than so many times the least shows little of the rest unless it is
/// logarithmic.
const MOST_LINEAR: u64 = 20;
/// Objects listed: those with the most faults. The others are added up.
const OBJECTS: usize = 20;

/// A report on some traces, to be made into a page.
#[derive(Clone, Debug)]
pub struct Page {
    /// A study of each trace.
    pub studies: Vec<Study>,
    /// The version of Sweephand.
    pub version: String,
    /// The policies asked for.
    pub policies: String,
    /// The memory sizes asked for.
    pub sizes: String,
}

/// One trace, as the template takes it.
#[derive(Serialize)]
struct Section {
    name: String,
    command: String,
    facts: String,
    sentences: crate::Sentences,
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
    /// What the reuse distances do not show.
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
    /// The heading of the column that says what OPT would save, if there is one.
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
    /// Length of a bar as long as the gain, in percent of the largest.
    bar: String,
}

impl Page {
    /// The page.
    pub fn html(&self) -> String {
        let mut environment = Environment::new();
        environment.add_template("page.html", TEMPLATE).expect("the template that we ship");
        let template = environment.get_template("page.html").expect("added above");
        let title = match &self.studies[..] {
            [study] => study.curves.name.clone(),
            studies => format!("{} traces", studies.len()),
        };
        let page = template.render(context! {
            title,
            style => page_style(),
            script => SCRIPT,
            // The heading of a trace: the page's own where there is but one.
            level => if self.studies.len() == 1 { 1 } else { 2 },
            studies => Value::from(Serde(self.studies.iter().map(section).collect::<Vec<_>>())),
            version => self.version.clone(),
            policies => self.policies.clone(),
            sizes => self.sizes.clone(),
            slack => percent(SLACK),
            worth_it => percent(WORTH_IT),
        });
        page.expect("the template takes what it is given")
    }
}

/// The style of all pages, light and dark.
pub fn page_style() -> String {
    style_sheet() + STYLE
}

/// The variables of every colour, for light and dark.
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

/// The same chart at two widths and two scales, of which the page shows one.
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
        |frame, logarithmic| FaultChart { study: curves, logarithmic, frame, medium: Medium::Page }.svg();
    let distance_chart = |frame: Frame, logarithmic| {
        let (name, distances) = (&curves.name[..], &study.distances);
        DistanceChart { name, distances, page_bytes, logarithmic, frame, medium: Medium::Page }.svg()
    };
    let instructions =
        trace.instructions.map_or(String::new(), |count| format!(" in {} instructions", grouped(count)));
    let memory = bytes(trace.distinct_pages * page_bytes);
    let mut with_pictures: Vec<&StudiedObject> =
        study.objects.objects.iter().filter(|object| object.picture.is_some()).collect();
    // Equals in the order of their lives.
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

/// What the script shows under the reader's hand.
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

/// What an object is called: it has no name of its own.
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
    // The first is CLOCK or what stands in for it, the last OPT.
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
