//! The words for what a request does.

use super::description::Words;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Read,
    Write,
    /// The contents are gone.
    Delete,
}

impl Op {
    const WORDS: [(Op, &'static [&'static str]); 3] = [
        (
            Self::Read,
            &["r", "rs", "ra", "read", "get", "gets", "gat", "get_lease", "lookup", "load", "fetch", "head"],
        ),
        (
            Self::Write,
            &[
                "w",
                "ws",
                "write",
                "put",
                "set",
                "set_lease",
                "add",
                "insert",
                "update",
                "replace",
                "cas",
                "append",
                "prepend",
                "incr",
                "decr",
                "store",
                "post",
            ],
        ),
        (Self::Delete, &["d", "delete", "del", "remove", "discard", "trim", "unmap"]),
    ];

    /// What a word means that logs use, in either case. Logs of object stores put it into a name,
    /// as in `REST.GET.OBJECT`.
    pub(super) fn of(word: &[u8]) -> Option<Self> {
        let word = match word.split(|byte| *byte == b'.').collect::<Vec<_>>()[..] {
            [rest, verb, _] if rest.eq_ignore_ascii_case(b"rest") => verb,
            _ => word,
        };
        Self::WORDS
            .iter()
            .find(|(_, words)| words.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes())))
            .map(|(op, _)| *op)
    }

    /// What a word means where some are named.
    pub(super) fn named(word: &[u8], words: &Words) -> Option<Self> {
        let is_named = |known: &String| match known.strip_suffix('*') {
            Some(start) => {
                word.get(..start.len()).is_some_and(|word| word.eq_ignore_ascii_case(start.as_bytes()))
            }
            None => word.eq_ignore_ascii_case(known.as_bytes()),
        };
        let is_of = |words: &[String]| words.iter().any(is_named);
        if is_of(&words.writes) {
            Some(Self::Write)
        } else if is_of(&words.deletes) {
            Some(Self::Delete)
        } else if is_of(&words.reads) {
            Some(Self::Read)
        } else if words.writes.is_empty() {
            Self::of(word)
        } else {
            words.reads.is_empty().then_some(Self::Read)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_op_word_has_one_meaning() {
        let words: Vec<_> = Op::WORDS.iter().flat_map(|(_, words)| *words).collect();
        for word in &words {
            assert_eq!(words.iter().filter(|other| *other == word).count(), 1, "{word}");
        }
        assert_eq!(Op::of(b"GET"), Some(Op::Read));
        assert_eq!(Op::of(b"Write"), Some(Op::Write));
        assert_eq!(Op::of(b"trim"), Some(Op::Delete));
        assert_eq!(Op::of(b"1"), None);
    }
}
