//! Traces, and their conversion to and from arrays.

use crate::error::{raise, raise_command};
use crate::wait::Watch;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySlice};
use std::io::{Cursor, Seek, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use sweephand_output::Output;
use sweephand_trace::{AllocKind, Chunk, EndTotals, Error, Event, Metadata, Sink, Totals, Writer};

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

/// What makes a trace again, and what that is given: the trace's bytes and its name.
type Pickled<'py> = (Bound<'py, PyAny>, (Bound<'py, PyBytes>, String));

/// Pages by page number, and which references write.
type References<'py> = (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<bool>>);

#[pymethods]
impl Trace {
    /// Opens a trace file of any format that the command takes, compressed or not; which one is
    /// found by its content.
    ///
    /// path: the file.
    /// name: what results call it; the path, unless it is said.
    ///
    /// Raises a `SweephandError` that names the file, and the place where it is damaged.
    ///
    /// >>> sweephand.Trace.open("traces/numpy.swt", name="numpy").distinct_pages
    /// 16506
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
    ///     reference. An array of uint64 without gaps is read where it is; any other is copied
    ///     first.
    /// writes: booleans, shape (references,): which references write; without it none does.
    /// instructions: how many the program executed, if that is known.
    /// page_bytes: bytes a page.
    /// name: what results call it; `array-` and the beginning of the checksum, unless it is said.
    ///
    /// Raises a `SweephandError` for negative, fractional and masked numbers, for arrays of more
    /// dimensions than one, and where `writes` is no array of as many booleans.
    ///
    /// >>> trace = sweephand.Trace.from_numpy([7, 8, 7, 9], [False, True, False, False])
    /// >>> trace.references, trace.distinct_pages
    /// (4, 3)
    #[staticmethod]
    #[pyo3(signature = (pages, writes=None, instructions=None, *, page_bytes=4096, name=None))]
    fn from_numpy(
        py: Python<'_>,
        pages: &Bound<'_, PyAny>,
        writes: Option<&Bound<'_, PyAny>>,
        instructions: Option<u64>,
        page_bytes: u64,
        name: Option<String>,
    ) -> PyResult<Self> {
        let pages = whole_numbers("pages", pages)?;
        Self::of_pages(py, &pages, writes, instructions, page_bytes, name)
    }

    /// Makes a trace, in memory, of byte addresses: a reference to the page of each.
    ///
    /// addresses: whole numbers, shape (references,): the address of each access, in bytes. An
    ///     access that reaches into the next page is a reference to its first page only.
    /// page_bytes: bytes a page; the page number is address // page_bytes.
    /// The rest is as for `from_numpy`, and so are the errors.
    ///
    /// >>> trace = sweephand.Trace.from_addresses([0x1000, 0x1ff8, 0x2000], page_bytes=4096)
    /// >>> trace.to_numpy()[0].tolist()
    /// [1, 1, 2]
    #[staticmethod]
    #[pyo3(signature = (addresses, writes=None, instructions=None, *, page_bytes=4096, name=None))]
    fn from_addresses(
        py: Python<'_>,
        addresses: &Bound<'_, PyAny>,
        writes: Option<&Bound<'_, PyAny>>,
        instructions: Option<u64>,
        page_bytes: u64,
        name: Option<String>,
    ) -> PyResult<Self> {
        let addresses = whole_numbers("addresses", addresses)?;
        let pages = match page_bytes {
            // Refused below.
            0 => addresses,
            // By a number of numpy's own, so that the result is an array of uint64 again.
            _ => addresses.floor_div(py.import("numpy")?.call_method1("uint64", (page_bytes,))?)?,
        };
        Self::of_pages(py, &pages, writes, instructions, page_bytes, name)
    }

    /// The references as two arrays: page numbers, uint64 of shape (records,), and which of them
    /// write, bool of the same shape.
    ///
    /// The trace is compressed, so this decodes it once, into memory that the arrays then own: 9
    /// bytes a record. Nothing is copied after that. A reduced trace (window > 0) has fewer records
    /// than the program made references. What else is in a trace (objects, pages given up) is not
    /// in the arrays.
    ///
    /// >>> pages, writes = sweephand.Trace.from_numpy([7, 8, 7]).to_numpy()
    /// >>> pages.tolist(), writes.tolist()
    /// ([7, 8, 7], [False, False, False])
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
    ///
    /// >>> sweephand.Trace.from_numpy([70, 80, 70]).page_ids().tolist()
    /// [0, 1, 0]
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
    ///
    /// path: the file; one that is there is replaced.
    ///
    /// Raises a `SweephandError` that names the file if it cannot be written.
    ///
    /// >>> sweephand.Trace.from_numpy([7, 8, 7]).save("three.swt")
    /// >>> sweephand.Trace.open("three.swt").records
    /// 3
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let watch = Watch::default();
        let saved = watch.over(py, || -> anyhow::Result<()> {
            let in_output = |error: Error| error.in_output(&path);
            let (end, metadata) = (EndTotals::from(self.totals()), self.trace.header().metadata.clone());
            let mut writer = Writer::new(Output::create(&path, &[])?, metadata).map_err(in_output)?;
            self.trace.replay(&mut writer, &mut |_| {}).map_err(in_output)?;
            Ok(writer.finish(end).map_err(in_output)?.0.commit()?)
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
        sweephand_results::json(self.trace.header())
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

    /// The same trace, under another name in results.
    ///
    /// >>> sweephand.Trace.from_numpy([7, 8, 7]).renamed("three").name
    /// 'three'
    fn renamed(&self, name: &str) -> Self {
        sweephand_trace::Trace::clone(&self.trace).with_name(Path::new(name)).into()
    }

    fn __len__(&self) -> usize {
        self.totals().records as usize
    }

    /// A part of the trace, by records: `trace[1000:2000]`. Pages keep their numbers, and objects
    /// that live then are in it. References and instructions that a reduced trace does not store
    /// one by one are counted as far as the marks within the part tell.
    fn __getitem__(&self, py: Python<'_>, part: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Ok(part) = part.cast::<PySlice>() else {
            return Err(PyTypeError::new_err(
                "a trace is cut by records, as in trace[1000:2000]; to_numpy() has the single ones",
            ));
        };
        let part = part.indices(self.totals().records as isize)?;
        let (start, stop, step) = (part.start, part.stop, part.step);
        if step != 1 {
            return Err(PyValueError::new_err(format!(
                "a step of {step} would make another program of it; cut a trace as in trace[1000:2000]"
            )));
        }
        let (start, stop) = (start as u64, stop.max(start) as u64);
        if (start, stop) == (0, self.totals().records) {
            return Ok(Self { trace: Arc::clone(&self.trace) });
        }
        let made = Watch::default().over(py, || -> Result<_, Error> {
            let metadata = self.trace.header().metadata.clone();
            let writer = Writer::with_level(Cursor::new(Vec::new()), metadata, MEMORY_LEVEL)?;
            let mut cut = Cut { writer, records: start..stop, at: 0 };
            self.trace.replay(&mut cut, &mut |_| {})?;
            let references = (self.trace.header().metadata.window == 0).then_some(stop - start);
            let end = EndTotals { references, ..EndTotals::default() };
            sweephand_trace::Trace::from_bytes(cut.writer.finish(end)?.0.into_inner())
        })?;
        let name = format!("{}[{start}:{stop}]", self.name());
        made.map(|trace| trace.with_name(Path::new(&name)).into()).map_err(raise)
    }

    /// Traces are equal if their checksums are: the same references and events, however they are
    /// stored and whatever they are called.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = other.py();
        match other.cast::<Self>() {
            Ok(other) => {
                let other = &other.get().trace;
                (self.trace.header().checksum == other.header().checksum).into_py_any(py)
            }
            Err(_) => Ok(py.NotImplemented()),
        }
    }

    fn __hash__(&self) -> u64 {
        self.trace.header().checksum
    }

    /// Pickled, a trace is its bytes, compressed: it may go to another machine.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Pickled<'py>> {
        let bytes = Watch::default().over(py, || -> Result<_, Error> {
            let (end, metadata) = (EndTotals::from(self.totals()), self.trace.header().metadata.clone());
            let mut writer = Writer::with_level(Cursor::new(Vec::new()), metadata, MEMORY_LEVEL)?;
            self.trace.replay(&mut writer, &mut |_| {})?;
            Ok(writer.finish(end)?.0.into_inner())
        })?;
        let make = py.get_type::<Self>().getattr("_from_bytes")?;
        Ok((make, (PyBytes::new(py, &bytes.map_err(raise)?), self.name())))
    }

    #[staticmethod]
    fn _from_bytes(bytes: &[u8], name: &str) -> PyResult<Self> {
        let trace = sweephand_trace::Trace::from_bytes(bytes.to_vec()).map_err(raise)?;
        Ok(trace.with_name(Path::new(name)).into())
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
    /// A trace of page numbers, which are an array of uint64.
    fn of_pages(
        py: Python<'_>,
        pages: &Bound<'_, PyAny>,
        writes: Option<&Bound<'_, PyAny>>,
        instructions: Option<u64>,
        page_bytes: u64,
        name: Option<String>,
    ) -> PyResult<Self> {
        let pages: PyReadonlyArray1<'_, u64> = pages.extract()?;
        let pages = pages.as_slice().map_err(raise)?;
        let writes = writes.map(|writes| flags(writes, pages.len())).transpose()?;
        let writes = writes.as_ref().map(|writes| writes.as_slice().map_err(raise)).transpose()?;
        if page_bytes == 0 {
            return Err(raise("page_bytes: must be more than 0"));
        }
        let watch = Watch::default();
        let program = name.clone().unwrap_or_else(|| "array".to_string());
        let made = watch.over(py, || -> Result<_, Error> {
            let metadata = Metadata {
                program,
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
        let trace = made.map_err(raise)?;
        // Arrays have no names, and results would not tell two of them apart.
        let name = name.unwrap_or_else(|| format!("array-{:08x}", trace.header().checksum >> 32));
        Ok(trace.with_name(Path::new(&name)).into())
    }

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

/// What becomes of a trace when only some of its records are kept.
struct Cut<W: Write + Seek> {
    writer: Writer<W>,
    /// The records that are kept.
    records: Range<u64>,
    /// Records seen.
    at: u64,
}

impl<W: Write + Seek> Cut<W> {
    /// Whether what happens now belongs to the part.
    fn is_inside(&self) -> bool {
        self.records.contains(&self.at)
    }
}

impl<W: Write + Seek> Sink for Cut<W> {
    fn reference(&mut self, page_number: u64, write: bool) -> Result<(), Error> {
        let is_inside = self.is_inside();
        self.at += 1;
        if is_inside { self.writer.reference(page_number, write) } else { Ok(()) }
    }

    // Objects made before may live in the part.
    fn alloc(&mut self, address: u64, length: u64, kind: AllocKind) -> Result<(), Error> {
        if self.at < self.records.end { self.writer.alloc(address, length, kind) } else { Ok(()) }
    }

    fn free(&mut self, address: u64) -> Result<(), Error> {
        if self.at < self.records.end { self.writer.free(address) } else { Ok(()) }
    }

    fn mark(&mut self, instructions: u64, references: u64) -> Result<(), Error> {
        if self.is_inside() { self.writer.mark(instructions, references) } else { Ok(()) }
    }

    fn map(&mut self, first_page: u64, pages: u64) -> Result<(), Error> {
        if self.is_inside() { self.writer.map(first_page, pages) } else { Ok(()) }
    }

    fn unmap(&mut self, first_page: u64, pages: u64) -> Result<(), Error> {
        if self.is_inside() { self.writer.unmap(first_page, pages) } else { Ok(()) }
    }

    fn remap(&mut self, from: u64, to: u64, pages: u64) -> Result<(), Error> {
        if self.is_inside() { self.writer.remap(from, to, pages) } else { Ok(()) }
    }
}

/// An argument as an array of numpy's: not masked, of one dimension.
fn array_of<'py>(name: &str, values: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let numpy = values.py().import("numpy")?;
    if numpy.getattr("ma")?.call_method1("is_masked", (values,))?.is_truthy()? {
        return Err(raise(format!(
            "{name}: a masked array hides some of its values; give {name}.compressed(), or fill them in"
        )));
    }
    let array = numpy.call_method1("asarray", (values,))?;
    let dimensions: usize = array.getattr("ndim")?.extract()?;
    if dimensions != 1 {
        return Err(raise(format!("{name}: an array of {dimensions} dimensions; give one of 1")));
    }
    Ok(array)
}

/// Whole numbers from 0 up, as an array of uint64 without gaps.
fn whole_numbers<'py>(name: &str, values: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let array = array_of(name, values)?;
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    let length: usize = array.getattr("size")?.extract()?;
    // Nothing has no type.
    if !["u", "i"].contains(&&*kind) && length > 0 {
        return Err(raise(format!("{name}: an array of {}; give whole numbers", array.getattr("dtype")?)));
    }
    if kind == "i" && length > 0 && array.call_method0("min")?.lt(0)? {
        let what = if name == "pages" { "page number" } else { "address" };
        return Err(raise(format!("{name}: {} is no {what}; they begin at 0", array.call_method0("min")?)));
    }
    values.py().import("numpy")?.call_method1("ascontiguousarray", (array, "uint64"))
}

/// Flags, one for each reference, as an array without gaps.
fn flags<'py>(flags: &Bound<'py, PyAny>, references: usize) -> PyResult<PyReadonlyArray1<'py, bool>> {
    let array = array_of("writes", flags)?;
    let length: usize = array.getattr("size")?.extract()?;
    if length != references {
        return Err(raise(format!("writes: {length} flags for {references} references")));
    }
    let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
    let are_flags = match &*kind {
        "b" => true,
        "u" | "i" if length > 0 => array.call_method0("min")?.ge(0)? && array.call_method0("max")?.le(1)?,
        // Nothing has no type.
        _ => length == 0,
    };
    if !are_flags {
        let found = array.getattr("dtype")?;
        return Err(raise(format!("writes: an array of {found}; give booleans, or zeros and ones")));
    }
    flags.py().import("numpy")?.call_method1("ascontiguousarray", (array, "bool"))?.extract()
}
