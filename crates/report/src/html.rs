//! The report as one HTML file.
//!
//! The file is complete: it loads nothing from the network or from other files. Its only script
//! shows the values under the pointer.

use crate::axis::short;
use crate::distance_chart::{self, DistanceChart};
use crate::fault_chart::{self, FaultChart, Frame, heading};
use crate::ink::{Medium, colours};
use crate::line_chart::{ChartLine, LineChart, lines};
use crate::map_chart::{Layers, data_uri};
use minijinja::value::Serde;
use minijinja::{Environment, Value, context};
use serde::Serialize;
use serde_json::json;
use std::collections::HashMap;
use sweephand_advice::{
    Compression, DeviceSeconds, Flame, Leaders, LeadersAtSize, OverTime, SLACK, Sentences, StudiedLine,
    StudiedObject, StudiedPlace, Study, WORTH_IT, percent,
};
use sweephand_results::{PolicyListing, bytes, grouped};
use sweephand_trace::contents::{AGES, Contents, SampledPages};
use sweephand_trace::objects::{NO_OBJECT, Object};
use sweephand_trace::picture::Picture;

const TEMPLATE: &str = include_str!("html/report.html");
const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/script.js");
/// If the largest number of faults is more than this many times the first touches, the chart starts
/// out logarithmic, because a linear one would show little of the smaller numbers.
const MOST_LINEAR: u64 = 20;
/// A table of faults has this many rows, those with the most faults, and adds up the others.
const ROWS: usize = 200;
/// The rows that a table shows at first.
const FIRST_ROWS: usize = 20;
/// The flame graph has boxes from this share of all faults on.
const LEAST_BOX: f64 = 0.002;
/// Boxes on top of each other in the flame graph. What is inside the last is not drawn.
const MOST_LEVELS: usize = 60;
/// The height of a box, in pixels.
const BOX_HEIGHT: usize = 22;

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

/// One trace, in the form that the template takes: the fields are the names that it uses.
#[derive(Serialize)]
struct Section {
    name: String,
    command: String,
    facts: String,
    sentences: Sentences,
    inconclusive: Option<String>,
    notes: Vec<String>,
    faults: HashMap<&'static str, String>,
    values: String,
    /// Whom policies that follow others follow, a table for each.
    leaders: Vec<LeadersTable>,
    /// Whether the fault chart is logarithmic at first.
    logarithmic: bool,
    selected: usize,
    last_size: usize,
    memory: String,
    records: String,
    /// Instructions at each quarter of the records, from 0 on, if the trace counts them.
    instructions: Vec<String>,
    map: Map,
    parts: Vec<Map>,
    /// Faults by line and by the place that made the object, if these are known, and by object.
    tables: Vec<FaultTable>,
    /// Predicted seconds, a table for each device.
    seconds: Vec<SecondsTable>,
    /// What pages contain, if the trace says so.
    contents: Option<ContentsTable>,
    /// What could be done about single objects.
    advice: Vec<String>,
    /// The faults of the first policy of the tables by call stack.
    flame: Option<FlameGraph>,
    /// The memory size of these tables.
    at: String,
    over_time: HashMap<&'static str, String>,
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

/// Faults by what the missing page belongs to.
#[derive(Serialize)]
struct FaultTable {
    /// What a row is.
    what: &'static str,
    /// The heading of the column with a count of pages or references.
    count: &'static str,
    /// Whether there is a column of sizes.
    has_size: bool,
    /// The heading of the last column.
    last: &'static str,
    policies: Vec<String>,
    /// The heading of the column with the faults that OPT would save, if there is such a column.
    gain: Option<String>,
    rows: Vec<FaultRow>,
}

/// Whom a policy follows at each memory size.
#[derive(Serialize)]
struct LeadersTable {
    policy: String,
    experts: Vec<String>,
    /// The memory size, the share of each expert, and how often the leader changed.
    rows: Vec<(String, Vec<String>, String)>,
}

/// Predicted seconds on a device.
#[derive(Serialize)]
struct SecondsTable {
    device: String,
    native: String,
    is_assumed: bool,
    columns: Vec<String>,
    /// The memory size, and for each column seconds and how many times as long as with all memory.
    rows: Vec<(String, Vec<(String, String)>)>,
    compression: Option<CompressionChart>,
}

/// What compressed memory would do.
#[derive(Serialize)]
struct CompressionChart {
    sentences: Vec<String>,
    /// Seconds by memory without and with it, at two widths. `None` if nothing is paged.
    chart: Option<HashMap<&'static str, String>>,
}

/// What pages contain, by object, and by their last use.
#[derive(Serialize)]
struct ContentsTable {
    facts: String,
    objects: Vec<ContentsRow>,
    ages: Vec<ContentsRow>,
}

/// The pages of an object or of an age, as text.
#[derive(Serialize)]
struct ContentsRow {
    name: Name,
    pages: String,
    zero: String,
    same_filled: String,
    lz4: String,
    zstd: String,
    incompressible: String,
}

/// The boxes of a flame graph.
#[derive(Serialize)]
struct FlameGraph {
    policy: String,
    height: usize,
    boxes: Vec<FlameBox>,
}

/// One box: places are shares of the width.
#[derive(Serialize)]
struct FlameBox {
    name: String,
    faults: String,
    share: String,
    left: String,
    width: String,
    top: usize,
    shade: usize,
}

/// A row as text.
#[derive(Default, Serialize)]
struct FaultRow {
    name: Name,
    size: String,
    pages: String,
    /// The last column.
    last: Name,
    faults: Vec<String>,
    gain: String,
    /// The length of the bar that shows the gain, in percent of the longest bar.
    bar: String,
    /// Shown only when asked for.
    is_more: bool,
    /// The sum of what has no row.
    is_sum: bool,
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
            policy_terms => policy_terms(&self.studies),
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
        inconclusive: curves.inconclusive.clone(),
        notes: curves.notes.clone(),
        faults: variants(fault_chart, fault_chart::table(curves)),
        leaders: curves.leaders.iter().map(|leaders| leaders_table(leaders, page_bytes)).collect(),
        values: values(study).to_string().replace('<', "\\u003c"),
        logarithmic: most > MOST_LINEAR * curves.curves.first_touch_faults,
        selected: curves.telling_size(),
        last_size: curves.curves.memory_pages.len() - 1,
        memory,
        records: grouped(trace.records),
        instructions: quarters(study),
        map: map(String::new(), &study.picture),
        parts: with_pictures.into_iter().map(part).collect(),
        tables: fault_tables(study),
        seconds: study.seconds.iter().map(|of| seconds_table(study, of)).collect(),
        contents: study.contents.as_ref().filter(|of| of.sampled().pages > 0).map(contents_table),
        advice: study.advice.iter().map(|advice| advice.text.clone()).collect(),
        flame: flame_graph(study),
        over_time: over_time(study),
        at: heading(curves, study.objects.size).trim_start_matches("faults at ").to_string(),
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

fn contents_table(contents: &Contents) -> ContentsTable {
    let (all, moments) = (contents.sampled(), contents.moments);
    let row = |name: String, sampled: &SampledPages| {
        let share = |pages| format!("{:.1}%", 100.0 * sampled.share(pages));
        let ratio = |ratio: Option<f64>| ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
        ContentsRow {
            name: name.into(),
            pages: grouped(sampled.pages),
            zero: share(sampled.zero),
            same_filled: share(sampled.same_filled),
            lz4: ratio(sampled.lz4_ratio()),
            zstd: ratio(sampled.zstd_ratio()),
            incompressible: share(sampled.incompressible),
        }
    };
    let objects = contents.objects.iter().take(FIRST_ROWS);
    let objects = objects.map(|object| row(object.name.clone(), &object.sampled));
    let ages = AGES.iter().zip(&contents.ages).filter(|(_, sampled)| sampled.pages > 0);
    ContentsTable {
        facts: format!(
            "{} pages of {} objects, read at {moments} moments of the run{}",
            grouped(all.pages),
            contents.objects.len(),
            contents.codec_times.map_or(String::new(), |times| format!(
                ". Codecs: {times} (medians, pages of files left out)"
            ))
        ),
        objects: objects.chain([row("all".to_owned(), &all)]).collect(),
        ages: ages.map(|(age, sampled)| row((*age).to_owned(), sampled)).collect(),
    }
}

/// Miss ratios over time, at two widths.
fn over_time(study: &Study) -> HashMap<&'static str, String> {
    let OverTime { windows, miss_ratios, .. } = &study.over_time;
    let has_times = windows.iter().all(|window| window.start_ms.is_some());
    let has_instructions = windows.iter().all(|window| window.instructions.is_some());
    let starts = windows.iter().map(|window| match (window.start_ms, window.instructions) {
        (Some(start), _) if has_times => start as f64 / 1000.0,
        (_, Some(instructions)) if has_instructions => instructions as f64,
        _ => window.references as f64,
    });
    let along = match (has_times, has_instructions) {
        (true, _) => "seconds",
        (_, true) => "instructions",
        _ => "references",
    };
    let line = |(policy, ratios): &(String, Vec<f64>)| ChartLine {
        name: policy.clone(),
        points: starts.clone().zip(ratios).map(|(start, ratio)| (start, 100.0 * ratio)).collect(),
        published: Vec::new(),
    };
    let chart = LineChart {
        name: format!("miss ratio over time, {}", study.curves.name),
        x: along.to_string(),
        y: "faults, % of the references".to_string(),
        logarithmic: false,
        lines: miss_ratios.iter().map(line).collect(),
    };
    let draw = |frame| lines(&chart, frame, Medium::Html);
    HashMap::from([("wide", draw(Frame::WIDE)), ("narrow", draw(Frame::NARROW))])
}

/// Instructions at each quarter of the trace's records; none if they are not counted.
fn quarters(study: &Study) -> Vec<String> {
    const QUARTERS: u64 = 4;
    let trace = &study.curves.trace;
    let windows = study.over_time.windows.iter();
    let known = windows.map(|window| window.instructions.map(|instructions| (window.record, instructions)));
    let end = trace.instructions.map(|all| (trace.records, all));
    let Some(points) = known.chain([end]).collect::<Option<Vec<_>>>() else { return Vec::new() };
    let at = |record: u64| {
        let after = points.partition_point(|(from, _)| *from < record);
        let (to, from) = (points[after.min(points.len() - 1)], points[after.saturating_sub(1)]);
        let share = (record.saturating_sub(from.0)) as f64 / to.0.saturating_sub(from.0).max(1) as f64;
        from.1 as f64 + share.min(1.0) * to.1.saturating_sub(from.1) as f64
    };
    (0..=QUARTERS).map(|quarter| short(at(trace.records * quarter / QUARTERS).round())).collect()
}

/// The policies of all studies, with what they are, for the page's end.
fn policy_terms(studies: &[Study]) -> Vec<(String, String)> {
    let curves = studies.iter().flat_map(|study| &study.curves.curves.curves);
    let mut names: Vec<&str> =
        curves.map(|curve| curve.policy.split(':').next().unwrap_or_default()).collect();
    names.sort_unstable();
    names.dedup();
    let described = |name: &&str| {
        let listing = PolicyListing::of_names(name).ok()?.into_iter().next()?.to_json();
        let text = |key: &str| listing[key].as_str().unwrap_or_default().to_owned();
        Some(format!("{}. {}", text("summary").trim_end_matches('.'), text("paper")))
    };
    names.iter().map(|name| ((*name).to_owned(), described(name).unwrap_or_default())).collect()
}

/// A name, and how a long one is shown until it is asked for.
#[derive(Default, Serialize)]
struct Name {
    whole: String,
    /// Empty if the whole is short.
    folded: String,
}

impl From<String> for Name {
    fn from(whole: String) -> Self {
        /// Characters that are shown in full, and those of a longer name at its ends.
        const MOST: usize = 72;
        const FIRST: usize = 40;
        const LAST: usize = 28;
        let letters: Vec<char> = whole.chars().collect();
        let ends = |from: usize, to: usize| letters[from..to].iter().collect::<String>();
        let folded = match letters.len() {
            0..=MOST => String::new(),
            length => format!("{}…{}", ends(0, FIRST), ends(length - LAST, length)),
        };
        Self { whole, folded }
    }
}

fn leaders_table(leaders: &Leaders, page_bytes: u64) -> LeadersTable {
    let share = |share: &f64| if *share > 0.0 { percent(*share) } else { String::new() };
    let row = |LeadersAtSize { memory_pages, shares, changes }: &LeadersAtSize| {
        let shares = shares.iter().map(share).collect();
        (bytes(memory_pages * page_bytes), shares, grouped(*changes))
    };
    LeadersTable {
        policy: leaders.policy.clone(),
        experts: leaders.experts.clone(),
        rows: leaders.sizes.iter().map(row).collect(),
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
    let leaders: Vec<Vec<String>> = (0..curves.memory_pages.len())
        .map(|size| study.curves.leaders.iter().filter_map(|leaders| leaders.sentence(size)).collect())
        .collect();
    json!({ "headings": headings, "lines": lines, "leaders": leaders })
}

fn map(name: String, picture: &Picture) -> Map {
    let layers = Layers::of(picture);
    Map { name, read: data_uri(&layers.read), written: data_uri(&layers.written) }
}

/// A name for an object, made from its kind, size, address and where it was made.
fn name(object: &StudiedObject, page_bytes: u64) -> String {
    object.object.as_ref().map_or_else(
        || NO_OBJECT.to_string(),
        |known| {
            let size = bytes(object.counts.pages * page_bytes);
            format!("{}{} of {size} at {:#x}", made_at(known), known.kind, known.address)
        },
    )
}

/// Where an object was made, in front of what it is.
fn made_at(object: &Object) -> String {
    let place = object.made_at.as_ref().and_then(|stack| stack.place());
    place.map(|frame| format!("{frame}: ")).unwrap_or_default()
}

/// What a row of a table stands for, with its numbers.
struct Counted {
    name: String,
    length_bytes: u64,
    pages: u64,
    last: String,
    faults: Vec<u64>,
}

/// The tables of faults.
fn fault_tables(study: &Study) -> Vec<FaultTable> {
    let records = study.curves.trace.records.max(1) as f64;
    let share = |record: u64| format!("{:.0}%", 100.0 * record as f64 / records);
    let places: Vec<Counted> = study
        .objects
        .places()
        .into_iter()
        .map(|StudiedPlace { made_at, objects, length_bytes, pages, faults, .. }| Counted {
            name: made_at,
            length_bytes,
            pages,
            last: grouped(objects),
            faults,
        })
        .collect();
    let objects = study
        .objects
        .objects
        .iter()
        .map(|studied| {
            let StudiedObject { object, counts, .. } = studied;
            let faults = counts.faults.iter().map(|faults| faults.faults).collect();
            let (name, length_bytes, last) = match object {
                None => {
                    let small = studied.made_at().map(|line| format!("{line}: small allocations"));
                    (small.unwrap_or_else(|| NO_OBJECT.to_string()), 0, "0% to end".to_string())
                }
                Some(known) => {
                    let end = known.to_record.map_or("end".into(), share);
                    let name = format!("{}{} at {:#x}", made_at(known), known.kind, known.address);
                    (name, known.length_bytes, format!("{} to {end}", share(known.from_record)))
                }
            };
            Counted { name, length_bytes, pages: counts.pages, last, faults }
        })
        .collect();
    let made = |number: usize| {
        let object = study.objects.objects.iter().find(|object| object.number == number);
        match object.and_then(|object| object.object.as_ref()) {
            None => match object.and_then(StudiedObject::made_at) {
                Some(line) => format!("small objects of {line}"),
                None => "no object".to_string(),
            },
            Some(known) => match known.made_at.as_ref().and_then(|stack| stack.place()) {
                Some(frame) => format!("an object of {frame}"),
                None => format!("{} at {:#x}", known.kind, known.address),
            },
        }
    };
    let lines: Vec<Counted> =
        study.objects.code.lines().iter().map(|line| counted_line(line, &made)).collect();
    let mut tables = Vec::new();
    if !lines.is_empty() {
        let table = fault_table(study, "line", "most of it", lines);
        tables.push(FaultTable { count: "references", has_size: false, ..table });
    }
    if !places.is_empty() {
        tables.push(fault_table(study, "place that made it", "objects", places));
    }
    tables.push(fault_table(study, "object", "lives", objects));
    tables
}

/// A line with what it did: the function inside it, and the object that it had most faults on.
fn counted_line(line: &StudiedLine, made: &dyn Fn(usize) -> String) -> Counted {
    let inside = line.inside.as_ref().map(|inside| format!("in {inside}"));
    let on = line.objects.first().map(|(object, _)| format!("on {}", made(*object)));
    Counted {
        name: line.code.clone(),
        length_bytes: 0,
        pages: line.records,
        last: inside.into_iter().chain(on).collect::<Vec<_>>().join(", "),
        faults: line.faults.clone(),
    }
}

fn seconds_table(study: &Study, of: &DeviceSeconds) -> SecondsTable {
    let curves = &study.curves.curves;
    let rows = curves.memory_pages.iter().enumerate().map(|(at, pages)| {
        let cell = |seconds: &Vec<f64>| {
            let times = seconds[at] / of.native_seconds.max(1e-9);
            (format!("{:.2}", seconds[at]), format!("{times:.2}"))
        };
        (bytes(pages * curves.page_bytes), of.seconds.iter().map(cell).collect())
    });
    SecondsTable {
        device: of.device.clone(),
        native: format!("{:.2}", of.native_seconds),
        is_assumed: of.is_assumed,
        columns: of.columns.clone(),
        rows: rows.collect(),
        compression: of.compression.as_ref().map(|of| compression_chart(study, of)),
    }
}

/// Seconds by memory with the best pool of each, and with none.
fn compression_chart(study: &Study, of: &Compression) -> CompressionChart {
    const MIB: f64 = (1 << 20) as f64;
    let line = |(name, points): (&str, Vec<(u64, f64)>)| ChartLine {
        name: name.to_owned(),
        points: points.iter().map(|(bytes, seconds)| (*bytes as f64 / MIB, *seconds)).collect(),
        published: Vec::new(),
    };
    let chart = LineChart {
        name: format!("seconds by memory on {}, {}", of.device, study.curves.name),
        x: "memory, MiB, the pool included".to_owned(),
        y: "seconds".to_owned(),
        logarithmic: false,
        lines: of.lines().map(line).into(),
    };
    let draw = |frame| lines(&chart, frame, Medium::Html);
    let drawn = || HashMap::from([("wide", draw(Frame::WIDE)), ("narrow", draw(Frame::NARROW))]);
    CompressionChart { sentences: of.sentences(), chart: (!of.memories.is_empty()).then(drawn) }
}

fn flame_graph(study: &Study) -> Option<FlameGraph> {
    let code = &study.objects.code;
    if code.is_empty() {
        return None;
    }
    let flame = code.flame(0, LEAST_BOX);
    let mut boxes = Vec::new();
    put_boxes(&flame, 0, 0, flame.faults.max(1) as f64, &mut boxes);
    let levels = 1 + boxes.iter().map(|of| of.top).max().unwrap_or_default() / BOX_HEIGHT;
    let policy = study.curves.curves.curves[study.objects.policies[0]].policy.clone();
    Some(FlameGraph { policy, height: levels * BOX_HEIGHT, boxes })
}

/// A box and those in it, from this many faults from the left on.
fn put_boxes(flame: &Flame, before: u64, level: usize, all: f64, boxes: &mut Vec<FlameBox>) {
    let share = |faults: u64| format!("{:.3}", 100.0 * faults as f64 / all);
    boxes.push(FlameBox {
        name: flame.name.clone(),
        faults: grouped(flame.faults),
        share: format!("{:.1}", 100.0 * flame.faults as f64 / all),
        left: share(before),
        width: share(flame.faults),
        top: level * BOX_HEIGHT,
        shade: flame.name.bytes().map(usize::from).sum::<usize>() % 4,
    });
    let mut before = before;
    for call in flame.calls.iter().filter(|_| level + 1 < MOST_LEVELS) {
        put_boxes(call, before, level + 1, all, boxes);
        before += call.faults;
    }
}

/// A table of the rows with most faults; the others are added up in one.
fn fault_table(study: &Study, what: &'static str, last: &'static str, mut all: Vec<Counted>) -> FaultTable {
    let curves = &study.curves;
    let policies: Vec<String> =
        study.objects.policies.iter().map(|policy| curves.curves.curves[*policy].policy.clone()).collect();
    // The first policy is CLOCK, or the one in its place; the last is OPT.
    let (clock, opt) = (0, policies.len() - 1);
    let has_gain = curves.conclusion.headroom.is_some() && policies.len() > 1;
    let others = all.split_off(all.len().min(ROWS));
    let others_empty = others.is_empty();
    if !others_empty {
        let mut sum = Counted {
            name: format!("{} others", grouped(others.len() as u64)),
            length_bytes: 0,
            pages: 0,
            last: String::new(),
            faults: vec![0; policies.len()],
        };
        for other in others {
            sum.length_bytes = sum.length_bytes.saturating_add(other.length_bytes);
            sum.pages += other.pages;
            sum.faults.iter_mut().zip(other.faults).for_each(|(sum, faults)| *sum += faults);
        }
        all.push(sum);
    }
    let saved = |row: &Counted| row.faults[clock] as i64 - row.faults[opt] as i64;
    let most = all.iter().map(saved).max().unwrap_or(0).max(1) as f64;
    let sums_up = !others_empty;
    let last_row = all.len() - 1;
    let rows = all.into_iter().enumerate().map(|(at, row)| {
        let saved = saved(&row);
        let sign = if saved < 0 { "-" } else { "" };
        FaultRow {
            size: if row.length_bytes > 0 { bytes(row.length_bytes) } else { String::new() },
            pages: grouped(row.pages),
            last: row.last.into(),
            faults: row.faults.into_iter().map(grouped).collect(),
            gain: format!("{sign}{}", grouped(saved.unsigned_abs())),
            bar: format!("{:.0}", 100.0 * saved.max(0) as f64 / most),
            name: row.name.into(),
            is_more: at >= FIRST_ROWS,
            is_sum: sums_up && at == last_row,
        }
    });
    FaultTable {
        what,
        count: "pages",
        has_size: true,
        last,
        gain: has_gain.then(|| format!("{} over {}", policies[clock], policies[opt])),
        rows: rows.collect(),
        policies,
    }
}
