//! Where in a program its objects are made: call stacks, by function and line.
//!
//! They are an optional part of a trace's metadata ([`Metadata::places`](crate::Metadata::places)).
//! A program that does not know it ignores it, as it does any field of the metadata.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The stacks at which the objects of a trace were made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// Each different stack once.
    pub stacks: Vec<Stack>,
    /// The number of the stack in `stacks` of each object, in order of allocation. `None` where it
    /// is not known. Shorter than the list of objects if the stacks of the last are not known.
    pub of_objects: Vec<Option<u32>>,
}

impl Places {
    /// The stack of the object with this number in order of allocation.
    pub fn of_object(&self, object: usize) -> Option<&Stack> {
        let stack = (*self.of_objects.get(object)?)?;
        self.stacks.get(stack as usize)
    }

    /// Of each stack, only the frame that names the place remains.
    pub(crate) fn without_callers(&mut self) {
        for stack in &mut self.stacks {
            *stack = Stack(stack.place().cloned().into_iter().collect());
        }
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
    /// The program or library with the code; empty if it is in no file.
    pub module: String,
    /// The address of the code in that file, as `addr2line` takes it.
    pub offset: u64,
}

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

/// How paths of the sources of the languages' own libraries begin: C and C++ headers, Rust's
/// library and its dependencies as they are distributed.
const LIBRARIES: [&str; 5] = ["/usr/include/", "/usr/lib/", "/rustc/", "/rust/deps/", "library/"];

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

    /// Whether it only passes an allocation on: an allocator, or a language's own library.
    pub fn is_library(&self) -> bool {
        let allocates = |name: &str| ALLOCATORS.contains(&name) || name.starts_with("operator new");
        let is_libraries = |path: &str| LIBRARIES.iter().any(|start| path.starts_with(start));
        self.function.as_deref().is_some_and(allocates)
            || self.line.as_ref().is_some_and(|(path, _)| is_libraries(path))
    }
}

/// `relax.c:12 in step`; without debug information `step in relax+0x1130`; of a stripped program
/// `relax+0x1130`.
impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let module = if self.module.is_empty() { "no file".to_owned() } else { name(&self.module) };
        match (&self.line, &self.function) {
            (Some((file, line)), Some(function)) => write!(f, "{}:{line} in {function}", name(file)),
            (Some((file, line)), None) => write!(f, "{}:{line}", name(file)),
            (None, Some(function)) => write!(f, "{function} in {module}+{:#x}", self.offset),
            (None, None) => write!(f, "{module}+{:#x}", self.offset),
        }
    }
}

impl Stack {
    /// The text of a stack in the recorder's stream, a line each frame.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        text.lines().map(Frame::parse).collect::<Option<_>>().map(Self)
    }

    /// The frame that names the place: the innermost that is neither an allocator nor of a
    /// language's own library, or the innermost if all are.
    pub fn place(&self) -> Option<&Frame> {
        self.0.iter().find(|frame| !frame.is_library()).or(self.0.first())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AllocKind, EndTotals, Metadata, Trace, Writer};
    use std::io::Cursor;

    fn stack(lines: &[&str]) -> Stack {
        Stack::parse(&lines.join("\n")).unwrap()
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
    }

    #[test]
    fn without_debug_information_a_place_is_a_module_and_an_offset() {
        assert_eq!(place(&["??? (in /usr/bin/a b (c))\t/usr/bin/a b (c)\t1130"]), "a b (c)+0x1130");
        assert_eq!(place(&["step (in /usr/bin/relax)\t/usr/bin/relax\t1130"]), "step in relax+0x1130");
        assert_eq!(place(&["???\t\t7f0010"]), "no file+0x7f0010");
    }

    /// A trace with one object, made at the first of so many stacks.
    fn written(stacks: usize, frames: usize) -> Trace {
        let function = Some("f".repeat(100));
        let stack = Stack(vec![Frame { function, ..Frame::default() }; frames]);
        let places = Places { stacks: vec![stack; stacks], of_objects: vec![Some(0)] };
        let metadata = Metadata { places: Some(places), ..Metadata::default() };
        let mut writer = Writer::new(Cursor::new(Vec::new()), metadata).unwrap();
        writer.alloc(0x10000, 0x10000, AllocKind::Malloc).unwrap();
        Trace::from_bytes(writer.finish(EndTotals::default()).unwrap().0.into_inner()).unwrap()
    }

    #[test]
    fn stacks_that_are_too_many_for_a_file_lose_their_callers_or_go() {
        let kept = |stacks, frames| {
            let trace = written(stacks, frames);
            let metadata = &trace.header().metadata;
            let first =
                metadata.places.as_ref().map(|places| (places.stacks.len(), places.stacks[0].0.len()));
            (first, metadata.notes.len())
        };
        assert_eq!(kept(100, 12), (Some((100, 12)), 0));
        assert_eq!(kept(20_000, 12), (Some((20_000, 1)), 1));
        assert_eq!(kept(150_000, 1), (None, 2));
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        for line in ["", "step", "step\tmodule", "step\tmodule\tno number"] {
            assert_eq!(Frame::parse(line), None, "{line}");
        }
    }
}
