//! Traces, and their conversion to and from arrays.

use crate::error::{raise, raise_command};
use crate::wait::Watch;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use sweephand_cli::output::Output;
use sweephand_trace::{Chunk, EndTotals, Error, Event, Metadata, Totals, Writer};

/// A trace of page references, open for reading.
///
/// Made by `Trace.open`, `Trace.from_numpy`, `sweephand.record` and `sweephand.generate`. It can be
/// read by any number of threads at once, and nothing in it can be changed.
#[pyclass(frozen, module = "sweephand")]
pub(crate) struct Trace {
    pub(crate) trace: Arc<sweephand_trace::Trace>,
}

impl From<sweephand_trace::Trace> for Trace {
    fn from(trace: sweephand_trace::Trace) -> Self {
        Self { trace: Arc::new(trace) }
    }
}

/// The zstd level of traces kept in memory.
const MEMORY_LEVEL: i32 = 1;
/// References between two looks at whether to go on.
const STEP: usize = 1 << 18;

/// Pages by page number, and which references write.
type References<'py> = (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<bool>>);

#[pymethods]
impl Trace {
    /// Opens a trace file of any format that the command takes, compressed or not; which one is
    /// found by its content.
    ///
    /// A trace of Sweephand's own format is read as it is needed; others are converted into memory
    /// first.
    #[staticmethod]
    #[pyo3(signature = (path, *, name=None))]
    fn open(py: Python<'_>, path: PathBuf, name: Option<String>) -> PyResult<Self> {
        let trace = py.detach(|| sweephand_trace::Trace::open(&path)).map_err(raise)?;
        Ok(match name {
            Some(name) => trace.with_name(Path::new(&name)),
            None => trace,
        }
        .into())
    }

    /// Makes a trace, in memory, of page numbers.
    ///
    /// pages: whole numbers, shape (references,): the page number (address // page_bytes) of each
    /// reference. An array of uint64 without gaps is read where it is; any other is copied first.
    /// writes: booleans, shape (references,): which references write; without it none does.
    /// instructions: how many the program executed, if that is known. page_bytes: bytes a page.
    /// name: what results call it.
    #[staticmethod]
    #[pyo3(signature = (pages, writes=None, instructions=None, *, page_bytes=4096, name="array".to_string()))]
    fn from_numpy(
        py: Python<'_>,
        pages: &Bound<'_, PyAny>,
        writes: Option<&Bound<'_, PyAny>>,
        instructions: Option<u64>,
        page_bytes: u64,
        name: String,
    ) -> PyResult<Self> {
        let pages = page_numbers(pages)?;
        let pages = pages.as_slice().map_err(raise)?;
        let writes = writes.map(|writes| flags(writes, pages.len())).transpose()?;
        let writes = writes.as_ref().map(|writes| writes.as_slice().map_err(raise)).transpose()?;
        if page_bytes == 0 {
            return Err(raise("page_bytes: must be more than 0"));
        }
        let watch = Watch::default();
        let made = watch.over(py, || -> Result<_, Error> {
            let metadata = Metadata {
                program: name.clone(),
                page_size: page_bytes,
                source: "array".to_string(),
                ..Metadata::default()
            };
            let mut writer = Writer::with_level(Cursor::new(Vec::new()), metadata, MEMORY_LEVEL)?;
            for (number, pages) in pages.chunks(STEP).enumerate().take_while(|_| !watch.interrupt.is_raised())
            {
                let first = number * STEP;
                match writes {
                    None => pages.iter().try_for_each(|page| writer.reference(*page, false))?,
                    Some(writes) => {
                        let references = pages.iter().zip(&writes[first..]);
                        references
                            .into_iter()
                            .try_for_each(|(page, write)| writer.reference(*page, *write))?;
                    }
                }
            }
            let (out, _) = writer.finish(EndTotals { instructions, ..EndTotals::default() })?;
            sweephand_trace::Trace::from_bytes(out.into_inner())
        })?;
        made.map(|trace| Self::from(trace.with_name(Path::new(&name)))).map_err(raise)
    }

    /// The references as two arrays: page numbers, uint64 of shape (records,), and which of them
    /// write, bool of the same shape.
    ///
    /// The trace is compressed, so this decodes it once, into memory that the arrays then own: 9
    /// bytes a record. Nothing is copied after that. A reduced trace (window > 0) has fewer records
    /// than the program made references. What else is in a trace (objects, pages given up) is not
    /// in the arrays.
    fn to_numpy<'py>(&self, py: Python<'py>) -> PyResult<References<'py>> {
        let records = self.totals().records as usize;
        let (mut pages, mut writes) = (Vec::with_capacity(records), Vec::with_capacity(records));
        let watch = Watch::default();
        let read = watch.over(py, || self.numbers(&watch, &mut pages, &mut writes))?;
        read.map_err(raise)?;
        Ok((pages.into_pyarray(py), writes.into_pyarray(py)))
    }

    /// The page of each reference by dense id, in order of first touch: uint32 of shape (records,).
    /// Ids follow contents: a page that is moved to another number keeps its id.
    fn page_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let mut ids = Vec::with_capacity(self.totals().records as usize);
        let watch = Watch::default();
        let read = watch.over(py, || {
            self.for_each_chunk(&watch, |chunk| {
                ids.extend(chunk.references.iter().map(|reference| reference.page()));
            })
        })?;
        read.map_err(raise)?;
        Ok(ids.into_pyarray(py))
    }

    /// Writes the trace to a file in Sweephand's own format. The file appears when it is whole.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let watch = Watch::default();
        let saved = watch.over(py, || -> anyhow::Result<()> {
            let in_output = |error: Error| error.in_output(&path);
            let (end, metadata) = (EndTotals::from(self.totals()), self.trace.header().metadata.clone());
            let mut writer = Writer::new(Output::create(&path)?, metadata).map_err(in_output)?;
            self.trace.replay(&mut writer, &mut |_| {}).map_err(in_output)?;
            writer.finish(end).map_err(in_output)?.0.commit()
        })?;
        saved.map_err(|error| raise_command(&error))
    }

    /// What results and errors call it: the path it was opened by, as a rule.
    #[getter]
    fn name(&self) -> String {
        self.trace.name().display().to_string()
    }

    /// Everything that the trace says of itself, as JSON.
    #[getter]
    fn header_json(&self) -> String {
        sweephand_report::json(self.trace.header())
    }

    /// The identity of its contents, in hexadecimal: equal references have equal checksums, however
    /// they are stored.
    #[getter]
    fn checksum(&self) -> String {
        format!("{:016x}", self.trace.header().checksum)
    }

    /// References stored.
    #[getter]
    fn records(&self) -> u64 {
        self.totals().records
    }

    /// References that the program made: more than `records` if the trace is reduced.
    #[getter]
    fn references(&self) -> u64 {
        self.totals().references
    }

    /// Page numbers touched.
    #[getter]
    fn distinct_pages(&self) -> u64 {
        self.totals().distinct_pages
    }

    /// Instructions that the program executed, if that is known.
    #[getter]
    fn instructions(&self) -> Option<u64> {
        self.totals().instructions
    }

    /// Bytes a page.
    #[getter]
    fn page_bytes(&self) -> u64 {
        self.trace.header().metadata.page_size
    }

    /// The window that it was reduced with, in pages; 0: every reference is there, 1: runs of
    /// references to one page are one.
    #[getter]
    fn window(&self) -> u64 {
        self.trace.header().metadata.window
    }

    /// The program, or what else the references come from.
    #[getter]
    fn program(&self) -> String {
        self.trace.header().metadata.program.clone()
    }

    /// Its command line, if that is known.
    #[getter]
    fn command(&self) -> Vec<String> {
        self.trace.header().metadata.command.clone()
    }

    fn __len__(&self) -> usize {
        self.totals().records as usize
    }

    fn __repr__(&self) -> String {
        let totals = self.totals();
        format!(
            "<sweephand.Trace {}: {} references to {} pages>",
            self.name(),
            totals.references,
            totals.distinct_pages
        )
    }
}

impl Trace {
    fn totals(&self) -> &Totals {
        &self.trace.header().totals
    }

    /// Goes through the trace chunk by chunk, until it is interrupted.
    fn for_each_chunk(&self, watch: &Watch, mut each: impl FnMut(&Chunk)) -> Result<(), Error> {
        let mut chunk = Chunk::new();
        for index in (0..self.trace.chunks()).take_while(|_| !watch.interrupt.is_raised()) {
            self.trace.read_chunk(index, &mut chunk)?;
            each(&chunk);
        }
        Ok(())
    }

    /// The page number of each reference at its time, and whether it writes.
    fn numbers(&self, watch: &Watch, pages: &mut Vec<u64>, writes: &mut Vec<bool>) -> Result<(), Error> {
        let mut number: Vec<u64> = Vec::new();
        self.for_each_chunk(watch, |chunk| {
            number.extend_from_slice(&chunk.new_pages);
            let mut done = 0;
            let ends = chunk.events.iter().map(|(at, event)| (*at as usize, Some(event)));
            for (end, event) in ends.chain([(chunk.references.len(), None)]) {
                let references = &chunk.references[done..end];
                pages.extend(references.iter().map(|reference| number[reference.page() as usize]));
                if let Some(Event::Move { page, to }) = event {
                    number[*page as usize] = *to;
                }
                done = end;
            }
            writes.extend(chunk.references.iter().map(|reference| reference.is_write()));
        })
    }
}

/// Page numbers as an array without gaps.
fn page_numbers<'py>(pages: &Bound<'py, PyAny>) -> PyResult<PyReadonlyArray1<'py, u64>> {
    let numpy = pages.py().import("numpy")?;
    let array = numpy.call_method1("asarray", (pages,))?;
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    let (length, dimensions): (usize, usize) =
        (array.getattr("size")?.extract()?, array.getattr("ndim")?.extract()?);
    if dimensions != 1 {
        return Err(raise(format!("pages: an array of {dimensions} dimensions; give one of 1")));
    }
    // Nothing has no type.
    if !["u", "i"].contains(&&*kind) && length > 0 {
        return Err(raise(format!("pages: an array of {}; give whole numbers", array.getattr("dtype")?)));
    }
    if kind == "i" && length > 0 && array.call_method0("min")?.lt(0)? {
        return Err(raise(format!(
            "pages: {} is no page number; they begin at 0",
            array.call_method0("min")?
        )));
    }
    numpy.call_method1("ascontiguousarray", (array, "uint64"))?.extract()
}

/// Flags, one for each reference, as an array without gaps.
fn flags<'py>(flags: &Bound<'py, PyAny>, references: usize) -> PyResult<PyReadonlyArray1<'py, bool>> {
    let numpy = flags.py().import("numpy")?;
    let array = numpy.call_method1("ascontiguousarray", (flags, "bool"))?;
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    if shape != [references] {
        return Err(raise(format!("writes: {} flags for {references} references", array.getattr("size")?)));
    }
    array.extract()
}
