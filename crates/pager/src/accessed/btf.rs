//! BTF, the kernel's description of its own types: at which byte a structure has a member.
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
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
const DATASEC: u32 = 15;
const DECL_TAG: u32 = 17;
const ENUM64: u32 = 19;
/// Words of a type before what depends on its kind, and words of a member.
const HEADER_WORDS: usize = 3;
const MEMBER_WORDS: usize = 3;

/// All types of a kernel.
pub(super) struct Btf {
    words: Vec<u32>,
    strings: Vec<u8>,
    /// For each type, where it begins among the words. Type 0 is `void`.
    starts: Vec<usize>,
}

impl Btf {
    /// Reads what `/sys/kernel/btf/vmlinux` contains. `None` if it is not that.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        if u16::from_le_bytes(*bytes.first_chunk()?) != MAGIC {
            return None;
        }
        let header = word(4)? as usize;
        let section = |at: usize| -> Option<Range<usize>> {
            let start = header + word(at)? as usize;
            Some(start..start + word(at + 4)? as usize)
        };
        let (types, strings) = (bytes.get(section(8)?)?, bytes.get(section(16)?)?.to_vec());
        let words: Vec<u32> = types.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let (mut starts, mut at) = (vec![usize::MAX], 0);
        while at < words.len() {
            starts.push(at);
            let info = *words.get(at + 1)?;
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
        Some(Self { words, strings, starts })
    }

    fn name(&self, offset: u32) -> &[u8] {
        let text = self.strings.get(offset as usize..).unwrap_or_default();
        text.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    /// The byte at which a structure has a member, which may be in a part of it without a name.
    pub(super) fn offset(&self, structure: &str, member: &str) -> Option<usize> {
        let is_it = |&&at: &&usize| {
            at != usize::MAX
                && self.words[at + 1] >> 24 & 0x1f == STRUCT
                && self.name(self.words[at]) == structure.as_bytes()
        };
        self.member(*self.starts.iter().find(is_it)?, member)
    }

    fn member(&self, at: usize, wanted: &str) -> Option<usize> {
        let info = self.words[at + 1];
        let members = self.words.get(at + HEADER_WORDS..)?.chunks_exact(MEMBER_WORDS);
        for member in members.take((info & 0xffff) as usize) {
            // With this mark, the upper byte has the bits of a bit field.
            let bits = if info >> 31 != 0 { member[2] & 0xff_ffff } else { member[2] };
            let (name, offset) = (self.name(member[0]), bits as usize / 8);
            if name == wanted.as_bytes() {
                return Some(offset);
            }
            let inner = *self.starts.get(member[1] as usize)?;
            let has_members =
                || matches!(self.words.get(inner + 1).map(|info| info >> 24 & 0x1f), Some(STRUCT | UNION));
            if name.is_empty()
                && inner != usize::MAX
                && has_members()
                && let Some(within) = self.member(inner, wanted)
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
        let strings = b"\0int\0one\0a\0b\0c\0";
        let kind = |kind: u32, entries: u32| kind << 24 | entries;
        #[rustfmt::skip]
        let types: Vec<u32> = vec![
            1, kind(INT, 0), 4, 32,
            0, kind(STRUCT, 2), 16, 11, 1, 0, 13, 1, 64,
            5, kind(STRUCT, 2), 24, 9, 1, 0, 0, 2, 64,
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
    fn members_are_found_also_in_parts_without_a_name() {
        let btf = Btf::parse(&example()).unwrap();
        let offsets = ["a", "b", "c", "d"].map(|member| btf.offset("one", member));
        assert_eq!(offsets, [Some(0), Some(8), Some(16), None]);
        assert_eq!(btf.offset("two", "a"), None);
    }

    #[test]
    fn what_is_not_btf_is_refused() {
        assert!(Btf::parse(b"").is_none() && Btf::parse(b"\x7fELF and more of it").is_none());
        let whole = example();
        for length in 0..whole.len() {
            // It may be refused or lack members, but it is no reason to panic.
            let _ = Btf::parse(&whole[..length]).and_then(|btf| btf.offset("one", "c"));
        }
    }

    #[test]
    fn this_kernels_types_are_read() {
        let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") else { return };
        let btf = Btf::parse(&bytes).unwrap();
        assert!(btf.offset("task_struct", "mm").is_some_and(|offset| offset > 0 && offset % 8 == 0));
        assert!(btf.offset("mm_struct", "pgd").is_some_and(|offset| offset > 0 && offset % 8 == 0));
    }
}
