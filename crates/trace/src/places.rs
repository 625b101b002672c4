//! Places in a program: where its objects were made, and which code touched its pages.
//!
//! A place is code and how it was reached, by function and line. The places of a trace are a tree:
//! each has its caller, so those that share callers share them here, too. They are an optional part
//! of a trace's metadata ([`Metadata::places`](crate::Metadata::places)). A program that does not
//! know it ignores it, as it does any field of the metadata.

use crate::small::SmallBlocks;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The places of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Places {
    /// Functions, each at most once for each line.
    frames: Vec<Frame>,
    /// By place: its caller, and the number of its function.
    calls: Vec<(Option<u32>, u32)>,
    /// The place at which each object was made, in order of allocation. `None` where it is not
    /// known. Shorter than the list of objects if the places of the last are not known.
    pub of_objects: Vec<Option<u32>>,
    /// The places of what is no object: of each page with small allocations the place that has most
    /// of it.
    pub small: SmallBlocks,
}

/// As they stand in a file.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Stored {
    frames: Vec<Frame>,
    /// By place: one more than its caller, or 0; then the number of its function.
    calls: Vec<u32>,
    of_objects: Vec<Option<u32>>,
    /// Of each range of pages with small allocations: the pages between it and the one before, its
    /// pages, its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    small: Vec<u64>,
    /// Whole stacks, as development versions before the tree wrote them.
    #[serde(skip_serializing)]
    stacks: Vec<Stack>,
}

impl From<Places> for Stored {
    fn from(places: Places) -> Self {
        let calls = places.calls.iter().flat_map(|(caller, frame)| [caller.map_or(0, |n| n + 1), *frame]);
        Self {
            calls: calls.collect(),
            frames: places.frames,
            of_objects: places.of_objects,
            small: places.small.to_numbers(),
            stacks: Vec::new(),
        }
    }
}

impl TryFrom<Stored> for Places {
    type Error = &'static str;
    fn try_from(stored: Stored) -> Result<Self, Self::Error> {
        if !stored.stacks.is_empty() {
            let mut collector = Collector::default();
            let numbers: Vec<Option<u32>> =
                stored.stacks.into_iter().map(|stack| collector.stack(stack)).collect();
            let place = |stack: Option<u32>| numbers.get(stack? as usize).copied().flatten();
            let of_objects = stored.of_objects.into_iter().map(place).collect();
            return Ok(Self { of_objects, ..collector.finish() });
        }
        let (calls, []) = stored.calls.as_chunks::<2>() else {
            return Err("a place without a function");
        };
        let sound = calls
            .iter()
            .enumerate()
            .all(|(at, [caller, frame])| *caller as usize <= at && (*frame as usize) < stored.frames.len());
        if !sound {
            return Err("a place whose caller or function is not there");
        }
        let calls = calls.iter().map(|[caller, frame]| (caller.checked_sub(1), *frame)).collect();
        let Some(small) = SmallBlocks::from_numbers(&stored.small, stored.calls.len() / 2) else {
            return Err("small allocations at no place");
        };
        Ok(Self { frames: stored.frames, calls, of_objects: stored.of_objects, small })
    }
}

impl Places {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The call stack of a place; empty if there is no such place.
    pub fn stack(&self, place: u32) -> Stack {
        let mut frames = Vec::new();
        let mut next = Some(place);
        while let Some((caller, frame)) = next.and_then(|place| self.calls.get(place as usize)) {
            frames.push(self.frames[*frame as usize].clone());
            // Callers come before what they call, so this ends.
            next = *caller;
        }
        Stack(frames)
    }

    /// The stack of the object with this number in order of allocation.
    pub fn of_object(&self, object: usize) -> Option<Stack> {
        let place = (*self.of_objects.get(object)?)?;
        Some(self.stack(place)).filter(|stack| !stack.0.is_empty())
    }

    /// The line of a place, and whether it imports modules.
    pub(crate) fn line(&self, place: u32) -> (String, bool) {
        let stack = self.stack(place);
        (stack.place().map(ToString::to_string).unwrap_or_default(), stack.imports())
    }

    /// Of each place, only the function and line itself remain.
    pub(crate) fn without_callers(&mut self) {
        self.calls.iter_mut().for_each(|(caller, _)| *caller = None);
    }
}

/// Puts places together, each once.
#[derive(Debug, Default)]
pub struct Collector {
    places: Places,
    /// Numbers of the frames. Where the line is known, the offset does not tell them apart.
    frames: FxHashMap<Frame, u32>,
    calls: FxHashMap<(Option<u32>, u32), u32>,
}

impl Collector {
    /// The number of a place: code, and the place that calls it.
    pub fn place(&mut self, caller: Option<u32>, frame: Frame) -> u32 {
        let key = if frame.line.is_some() { Frame { offset: 0, ..frame.clone() } } else { frame.clone() };
        let next = self.places.frames.len() as u32;
        let number = *self.frames.entry(key).or_insert(next);
        if number == next {
            self.places.frames.push(frame);
        }
        let next = self.places.calls.len() as u32;
        let place = *self.calls.entry((caller, number)).or_insert(next);
        if place == next {
            self.places.calls.push((caller, number));
        }
        place
    }

    /// The number of the innermost function of a stack; `None` of an empty one.
    pub fn stack(&mut self, stack: Stack) -> Option<u32> {
        stack.0.into_iter().rev().fold(None, |caller, frame| Some(self.place(caller, frame)))
    }

    /// The places, without objects.
    pub fn finish(self) -> Places {
        self.places
    }
}

/// A call stack, the innermost function first. A function that was inlined has a frame of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stack(pub Vec<Frame>);

/// One function of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    /// Its name; `None` if the file has no symbol for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The path of the source file, as the compiler was given it, and the line; `None` if there is
    /// no debug information.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<(String, u32)>,
    /// The program or library with the code; empty if it is in no file; [`PYTHON`] of Python code.
    pub module: String,
    /// The address of the code in that file, as `addr2line` takes it.
    pub offset: u64,
}

/// The module of Python code.
pub const PYTHON: &str = "[python]";

/// The functions that pass an allocation on: C's allocators, and what C++ and Rust put before them.
const ALLOCATORS: [&str; 27] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "mmap",
    "mmap64",
    "mremap",
    "__mmap",
    "__mmap64",
    "__libc_malloc",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_memalign",
    "__GI___libc_malloc",
    "__GI___libc_realloc",
    "__posix_memalign",
    "__rust_alloc",
    "__rust_alloc_zeroed",
    "__rust_realloc",
    "__rdl_alloc",
    "__rdl_alloc_zeroed",
    "__rdl_realloc",
];

/// How names of other functions of allocators begin.
const ALLOCATING: [&str; 5] =
    ["operator new", "PyObject_Malloc", "PyObject_Calloc", "PyObject_Realloc", "PyMem_"];

/// How paths of the sources of the languages' own libraries begin: C and C++ headers, Rust's
/// library and its dependencies as they are distributed.
const LIBRARIES: [&str; 5] = ["/usr/include/", "/usr/lib/", "/rustc/", "/rust/deps/", "library/"];

/// How the modules of C's and C++'s own libraries are called, up to the version.
const MODULES: [&str; 4] = ["libc.so", "libstdc++.so", "libm.so", "ld-linux"];

/// Parts of the paths of Python's own modules and of packages that are installed.
const PYTHON_LIBRARIES: [&str; 4] = ["/site-packages/", "/dist-packages/", "/lib/python", "<frozen "];

impl Frame {
    /// A line of the recorder's stream: what Valgrind says of the code, the module, the offset in
    /// hexadecimal, with tabs between them. `None` if it is nothing like it.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut fields = line.rsplitn(3, '\t');
        let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
        let module = fields.next()?.to_owned();
        let description = fields.next()?;
        // "step (relax.c:12)", "step (in /usr/bin/relax)", "??? (in /usr/bin/relax)", or "???".
        let (function, place) = match description.rfind(" (in ") {
            Some(at) => (&description[..at], None),
            None => description
                .rsplit_once(" (")
                .and_then(|(function, place)| {
                    let (file, line) = place.strip_suffix(')')?.rsplit_once(':')?;
                    Some((function, Some((file.to_owned(), line.parse().ok()?))))
                })
                .unwrap_or((description, None)),
        };
        let function = Some(function).filter(|name| !matches!(*name, "???" | "UnknownInlinedFun" | ""));
        Some(Self { function: function.map(str::to_owned), line: place, module, offset })
    }

    /// Whether it is a line of Python code.
    pub fn is_python(&self) -> bool {
        self.module == PYTHON
    }

    /// Whether the program made the code as it ran, as a JVM's compiler does.
    pub fn is_made_at_run_time(&self) -> bool {
        self.module.is_empty() && self.function.is_none() && self.line.is_none()
    }

    /// Whether an interpreter frees there what is left, as it ends.
    pub fn ends_interpreter(&self) -> bool {
        !self.is_python() && self.function.as_deref().is_some_and(|name| ENDING.contains(&name))
    }

    /// Whether it only does something for its caller: an allocator, a language's own library, or a
    /// Python module that is installed.
    pub fn is_library(&self) -> bool {
        if self.is_python() {
            let is_installed = |path: &str| PYTHON_LIBRARIES.iter().any(|part| path.contains(part));
            return self.line.as_ref().is_none_or(|(path, _)| is_installed(path));
        }
        let allocates =
            |name: &str| ALLOCATORS.contains(&name) || ALLOCATING.iter().any(|start| name.starts_with(start));
        let is_libraries = |path: &str| LIBRARIES.iter().any(|start| path.starts_with(start));
        let module = self.module.rsplit('/').next().unwrap_or_default();
        MODULES.iter().any(|start| module.starts_with(start))
            || self.function.as_deref().is_some_and(allocates)
            || self.line.as_ref().is_some_and(|(path, _)| is_libraries(path))
    }
}

/// Functions in which interpreters end: they go over all objects that are left, to free them.
/// Python's, Perl's and Ruby's.
const ENDING: [&str; 3] = ["Py_FinalizeEx", "perl_destruct", "ruby_cleanup"];

/// How the files of Python's own import machinery are called.
const IMPORT: &str = "<frozen importlib";

/// `relax.c:12 in step`; without debug information `step in relax+0x1130`; of a stripped program
/// `relax+0x1130`. Code in no file has no name.
impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let module = if self.module.is_empty() { "no file".to_owned() } else { name(&self.module) };
        match (&self.line, &self.function) {
            (Some((file, line)), Some(function)) => write!(f, "{}:{line} in {function}", name(file)),
            (Some((file, line)), None) => write!(f, "{}:{line}", name(file)),
            (None, Some(function)) => write!(f, "{function} in {module}+{:#x}", self.offset),
            (None, None) if self.is_made_at_run_time() => {
                write!(f, "code made at run time, at {:#x}", self.offset)
            }
            (None, None) => write!(f, "{module}+{:#x}", self.offset),
        }
    }
}

impl Stack {
    /// The frame that names the place: the innermost that is neither an allocator nor of a
    /// language's own library, or the innermost if all are. If there is Python code, what it calls
    /// counts as a library. What an interpreter frees [as it
    /// ends](Frame::ends_interpreter) is named by that, if it runs no code of the program for it.
    pub fn place(&self) -> Option<&Frame> {
        let has_python = self.0.iter().any(Frame::is_python);
        if let Some(end) = self.0.iter().find(|frame| frame.ends_interpreter()).filter(|_| !has_python) {
            return Some(end);
        }
        let own = |frame: &&Frame| frame.is_python() == has_python && !frame.is_library();
        let python = || self.0.iter().find(|frame| frame.is_python());
        self.0.iter().find(own).or_else(python).or(self.0.first())
    }

    /// Whether the program's line that names the place only imports modules there: what is done
    /// is Python's import machinery, or the top level of modules that are no part of the program.
    pub fn imports(&self) -> bool {
        let place = self.place();
        let inside =
            self.0.iter().take_while(|frame| !place.is_some_and(|place| std::ptr::eq(place, *frame)));
        inside.chain(place).any(|frame| {
            frame.is_python() && frame.line.as_ref().is_some_and(|(path, _)| path.starts_with(IMPORT))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AllocKind, EndTotals, Metadata, Trace, Writer};
    use std::io::Cursor;

    fn stack(lines: &[&str]) -> Stack {
        Stack(lines.iter().map(|line| Frame::parse(line).unwrap()).collect())
    }

    impl Stack {
        fn to_string_of_places(&self) -> String {
            let names: Vec<_> = self.0.iter().map(|frame| frame.function.clone().unwrap()).collect();
            names.join(", ")
        }
    }

    fn place(lines: &[&str]) -> String {
        stack(lines).place().unwrap().to_string()
    }

    #[test]
    fn a_place_is_the_innermost_function_of_the_program() {
        let malloc = "malloc (malloc/./malloc/malloc.c:3281)\t/usr/lib/libc.so.6\t98930";
        let inlined = "inlined (/home/me/a.c:6)\t/tmp/a\t1091";
        assert_eq!(place(&[malloc, inlined, "main (/home/me/a.c:14)\t/tmp/a\t1091"]), "a.c:6 in inlined");
        let new = "operator new(unsigned long) (in /usr/lib/libstdc++.so.6)\t/usr/lib/libstdc++.so.6\taa1";
        let allocate = "_M_allocate (/usr/include/c++/12/bits/stl_vector.h:378)\t/tmp/b\t10";
        let grow = "Grid<std::pair<int, int> >::grow(unsigned long) (b.cc:6)\t/tmp/b\t10";
        assert_eq!(
            place(&[malloc, new, allocate, grow]),
            "b.cc:6 in Grid<std::pair<int, int> >::grow(unsigned long)"
        );
        let from_elem = "UnknownInlinedFun (/rustc/5980/library/alloc/src/vec/mod.rs:3651)\t/tmp/r\t1611e";
        assert_eq!(place(&[malloc, from_elem, "UnknownInlinedFun (src/r.rs:5)\t/tmp/r\t1611e"]), "r.rs:5");
        assert_eq!(place(&[malloc]), "malloc.c:3281 in malloc");
        let memset = "__memset_avx2 (string/memset.S:336)\t/usr/lib/x86_64-linux-gnu/libc.so.6\t15354a";
        assert_eq!(place(&[memset, grow]), "b.cc:6 in Grid<std::pair<int, int> >::grow(unsigned long)");
    }

    #[test]
    fn without_debug_information_a_place_is_a_module_and_an_offset() {
        assert_eq!(place(&["??? (in /usr/bin/a b (c))\t/usr/bin/a b (c)\t1130"]), "a b (c)+0x1130");
        assert_eq!(place(&["step (in /usr/bin/relax)\t/usr/bin/relax\t1130"]), "step in relax+0x1130");
        assert_eq!(place(&["???\t\t7f0000"]), "code made at run time, at 0x7f0000");
        assert!(Frame::parse("???\t\t7f0000").unwrap().is_made_at_run_time());
        assert!(!Frame::parse("???\t/usr/bin/relax\t1130").unwrap().is_made_at_run_time());
    }

    /// A trace with one object, made at the first of `stacks` stacks.
    fn written(stacks: usize, frames: usize) -> Trace {
        let function = Some("f".repeat(10_000));
        let frame = |offset| Frame { function: function.clone(), offset, ..Frame::default() };
        let mut collector = Collector::default();
        for n in 0..stacks {
            let callers = (1..frames).map(|depth| frame((1 << 40) + (n * frames + depth) as u64));
            collector.stack(Stack(std::iter::once(frame(n as u64)).chain(callers).collect()));
        }
        let places = Places { of_objects: vec![Some(frames as u32 - 1)], ..collector.finish() };
        let metadata = Metadata { places: Some(places), ..Metadata::default() };
        let mut writer = Writer::new(Cursor::new(Vec::new()), metadata).unwrap();
        writer.alloc(0x10000, 0x10000, AllocKind::Malloc).unwrap();
        Trace::from_bytes(writer.finish(EndTotals::default()).unwrap().0.into_inner()).unwrap()
    }

    #[test]
    fn places_that_are_too_many_for_a_file_lose_their_callers_or_go() {
        let kept = |stacks, frames| {
            let trace = written(stacks, frames);
            let metadata = &trace.header().metadata;
            let first = metadata.places.as_ref().map(|places| places.of_object(0).unwrap().0.len());
            (first, metadata.notes.len())
        };
        assert_eq!(kept(100, 12), (Some(12), 0));
        assert_eq!(kept(15_000, 1), (None, 2));
    }

    #[test]
    fn places_that_share_callers_share_them_in_the_file() {
        let mut collector = Collector::default();
        let grid = "grid (a.c:6)\t/tmp/a\t10";
        let main = "main (a.c:9)\t/tmp/a\t50";
        let one = collector.stack(stack(&["malloc (m.c:1)\t/lib/c\t1", grid, main])).unwrap();
        let other = collector.stack(stack(&["free (m.c:2)\t/lib/c\t2", grid, main])).unwrap();
        // The same line at another address is the same place.
        let again = collector.stack(stack(&["grid (a.c:6)\t/tmp/a\t14", main])).unwrap();
        assert_eq!((one, other, again), (2, 3, 1));
        let places = Places { of_objects: vec![None, Some(other)], ..collector.finish() };
        let read: Places = serde_json::from_str(&serde_json::to_string(&places).unwrap()).unwrap();
        assert_eq!(read, places);
        assert_eq!(read.of_object(1).unwrap().to_string_of_places(), "free, grid, main");
        assert_eq!((read.of_object(0), read.len()), (None, 4));
        // Stacks as they were stored before.
        let old = r#"{"stacks":[[{"function":"f","module":"m","offset":1}],
            [{"function":"g","module":"m","offset":2},{"function":"f","module":"m","offset":1}]],
            "of_objects":[1,null,0]}"#;
        let read: Places = serde_json::from_str(old).unwrap();
        let told: Vec<_> = (0..3).map(|object| Some(read.of_object(object)?.to_string_of_places())).collect();
        assert_eq!(told, [Some("g, f".to_owned()), None, Some("f".to_owned())]);
        for wrong in
            [r#"{"calls":[0]}"#, r#"{"frames":[{"module":"m"}],"calls":[2,0]}"#, r#"{"calls":[0,0]}"#]
        {
            assert!(serde_json::from_str::<Places>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn python_code_names_the_place_of_what_it_calls() {
        let native = "DOUBLE_multiply (in /v/numpy/_multiarray_umath.so)\t/v/numpy/_multiarray_umath.so\t9";
        let numpy = "_sum (/v/lib/python3.11/site-packages/numpy/_methods.py:49)\t[python]\t0";
        let step = "step (/home/me/relax.py:12)\t[python]\t0";
        assert_eq!(place(&[native, numpy, step]), "relax.py:12 in step");
        assert_eq!(place(&[native, numpy]), "_methods.py:49 in _sum");
    }

    #[test]
    fn what_an_interpreter_frees_as_it_ends_is_named_by_that() {
        let traverse = "subtract_refs (Modules/gcmodule.c:478)\t/usr/bin/python3.11\t9";
        let end = "Py_FinalizeEx (Python/pylifecycle.c:1833)\t/usr/bin/python3.11\t19";
        let main = "Py_BytesMain (Modules/main.c:734)\t/usr/bin/python3.11\t29";
        assert_eq!(place(&[traverse, end, main]), "pylifecycle.c:1833 in Py_FinalizeEx");
        assert_eq!(place(&[traverse, main]), "gcmodule.c:478 in subtract_refs");
        let at_exit = "save (/home/me/relax.py:12)\t[python]\t0";
        assert_eq!(place(&[traverse, at_exit, end, main]), "relax.py:12 in save");
        let perl = "perl_destruct (in /usr/bin/perl)\t/usr/bin/perl\t1130";
        assert_eq!(
            place(&["??? (in /usr/bin/perl)\t/usr/bin/perl\t1", perl]),
            "perl_destruct in perl+0x1130"
        );
    }

    #[test]
    fn malformed_frame_lines_are_refused() {
        for line in ["", "step", "step\tmodule", "step\tmodule\tno number"] {
            assert_eq!(Frame::parse(line), None, "{line}");
        }
    }
}
