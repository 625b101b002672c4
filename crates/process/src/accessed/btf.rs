//! BTF, the kernel's description of its own types: at which byte a structure has a member, and the
//! numbers of functions that a BPF program may call.
//!
//! Documentation/bpf/btf.rst of the kernel has the format.

use std::ops::Range;

const MAGIC: u16 = 0xeb9f;

// Kinds of types.
const INT: u32 = 1;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const DECL_TAG: u32 = 17;
const ENUM64: u32 = 19;
/// Words of a type before what depends on its kind, and words of a member.
const HEADER_WORDS: usize = 3;
const MEMBER_WORDS: usize = 3;

/// All types of a kernel.
pub(crate) struct Btf<'a> {
    words: &'a [[u8; 4]],
    strings: &'a [u8],
    /// For each type, where it begins among the words. Type 0 is `void`.
    starts: Vec<u32>,
}

/// No place among the words.
const NOWHERE: u32 = u32::MAX;

impl<'a> Btf<'a> {
    /// Reads what `/sys/kernel/btf/vmlinux` contains. `None` if it is not that.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        if u16::from_le_bytes(*bytes.first_chunk()?) != MAGIC {
            return None;
        }
        let header = word(4)? as usize;
        let section = |at: usize| -> Option<Range<usize>> {
            let start = header + word(at)? as usize;
            Some(start..start + word(at + 4)? as usize)
        };
        let (types, strings) = (bytes.get(section(8)?)?, bytes.get(section(16)?)?);
        let mut btf = Self { words: types.as_chunks().0, strings, starts: vec![NOWHERE] };
        let mut at = 0;
        while at < btf.words.len() {
            btf.starts.push(at as u32);
            let info = btf.word(at + 1)?;
            let entries = (info & 0xffff) as usize;
            at += HEADER_WORDS
                + match info >> 24 & 0x1f {
                    INT | VAR | DECL_TAG => 1,
                    ARRAY => 3,
                    STRUCT | UNION => MEMBER_WORDS * entries,
                    ENUM | FUNC_PROTO => 2 * entries,
                    DATASEC | ENUM64 => 3 * entries,
                    _ => 0,
                };
        }
        Some(btf)
    }

    fn word(&self, at: usize) -> Option<u32> {
        self.words.get(at).map(|word| u32::from_le_bytes(*word))
    }

    fn name(&self, offset: u32) -> &[u8] {
        let text = self.strings.get(offset as usize..).unwrap_or_default();
        text.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    /// The kind of the type that begins here, and how many entries it has.
    fn kind(&self, at: usize) -> Option<(u32, usize)> {
        self.word(at + 1).map(|info| (info >> 24 & 0x1f, (info & 0xffff) as usize))
    }

    /// The byte at which a structure has a member, which may be in a part of it without a name.
    pub(crate) fn offset(&self, structure: &str, member: &str) -> Option<usize> {
        let number = self.structure(structure)?;
        self.member(self.starts[number as usize] as usize, member)
    }

    /// The number of a function, by which a BPF program calls it.
    pub(crate) fn function(&self, name: &str) -> Option<u32> {
        self.number(FUNC, name)
    }

    /// The number of a structure.
    pub(crate) fn structure(&self, name: &str) -> Option<u32> {
        self.number(STRUCT, name)
    }

    /// The bytes of a structure.
    pub(crate) fn size(&self, structure: &str) -> Option<usize> {
        let number = self.structure(structure)?;
        self.word(self.starts[number as usize] as usize + 2).map(|bytes| bytes as usize)
    }

    fn number(&self, wanted: u32, name: &str) -> Option<u32> {
        let is_it = |&at: &u32| {
            self.kind(at as usize).is_some_and(|(kind, _)| kind == wanted)
                && self.word(at as usize).is_some_and(|text| self.name(text) == name.as_bytes())
        };
        // Type 0 begins nowhere.
        self.starts[1..].iter().position(is_it).map(|before| before as u32 + 1)
    }

    fn member(&self, at: usize, wanted: &str) -> Option<usize> {
        // With this mark, the upper byte of a place has the bits of a bit field.
        let has_bit_fields = self.word(at + 1)? >> 31 != 0;
        let (_, members) = self.kind(at)?;
        for member in (0..members).map(|index| at + HEADER_WORDS + MEMBER_WORDS * index) {
            let [name, kind, place] = [self.word(member)?, self.word(member + 1)?, self.word(member + 2)?];
            let bits = if has_bit_fields { place & 0xff_ffff } else { place };
            let (name, offset) = (self.name(name), bits as usize / 8);
            if name == wanted.as_bytes() {
                return Some(offset);
            }
            let inner = *self.starts.get(kind as usize)?;
            let has_members = || matches!(self.kind(inner as usize), Some((STRUCT | UNION, _)));
            if name.is_empty()
                && inner != NOWHERE
                && has_members()
                && let Some(within) = self.member(inner as usize, wanted)
            {
                return Some(offset + within);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct one { int a; struct { int b; long c; }; }`.
    fn example() -> Vec<u8> {
        let strings = b"\0int\0one\0a\0b\0c\0do\0";
        let kind = |kind: u32, entries: u32| kind << 24 | entries;
        #[rustfmt::skip]
        let types: Vec<u32> = vec![
            1, kind(INT, 0), 4, 32,
            0, kind(STRUCT, 2), 16, 11, 1, 0, 13, 1, 64,
            5, kind(STRUCT, 2), 24, 9, 1, 0, 0, 2, 64,
            0, kind(FUNC_PROTO, 0), 1,
            15, kind(FUNC, 0), 4,
        ];
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, 4 * types.len() as u32, 4 * types.len() as u32, strings.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        types.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn btf_members_in_anonymous_parts_are_found() {
        let bytes = example();
        let btf = Btf::parse(&bytes).unwrap();
        let offsets = ["a", "b", "c", "d"].map(|member| btf.offset("one", member));
        assert_eq!(offsets, [Some(0), Some(8), Some(16), None]);
        assert_eq!(btf.offset("two", "a"), None);
        assert_eq!([btf.function("do"), btf.function("one")], [Some(5), None]);
        assert_eq!((btf.structure("one"), btf.size("one"), btf.size("do")), (Some(3), Some(24), None));
    }

    #[test]
    fn malformed_btf_is_refused() {
        assert!(Btf::parse(b"").is_none() && Btf::parse(b"\x7fELF and more of it").is_none());
        let whole = example();
        for length in 0..whole.len() {
            // It may be refused or lack members, but it is no reason to panic.
            let _ = Btf::parse(&whole[..length]).map(|btf| btf.offset("one", "c"));
        }
    }

    #[test]
    fn this_kernels_types_are_read() {
        let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            return sweephand_checks::skip(sweephand_checks::Need::Bpf, "the kernel has no BTF");
        };
        let btf = Btf::parse(&bytes).unwrap();
        assert!(btf.offset("task_struct", "mm").is_some_and(|offset| offset > 0 && offset % 8 == 0));
        assert!(btf.offset("mm_struct", "pgd").is_some_and(|offset| offset > 0 && offset % 8 == 0));
    }
}
