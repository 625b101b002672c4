//! Where in a text a mistake is.

use alloc::{format, string::String};
use core::ops::Range;

/// `line 3: message`, if the reader of a text says in which bytes of it the mistake is; else only
/// the message. All of it is in one line.
pub fn message(text: &str, bytes: Option<Range<usize>>, message: &str) -> String {
    let message = message.replace('\n', ", ");
    match bytes {
        Some(Range { start, .. }) => {
            let before = &text[..start.min(text.len())];
            format!("line {}: {message}", 1 + before.matches('\n').count())
        }
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::message;

    #[test]
    fn a_message_names_the_line_that_the_bytes_begin_in() {
        let text = "a = 1\nb = 2\n";
        for (bytes, expected) in [
            (Some(0..1), "line 1: no"),
            (Some(5..6), "line 1: no"),
            (Some(6..7), "line 2: no"),
            (Some(12..12), "line 3: no"),
            (Some(99..100), "line 3: no"),
            (None, "no"),
        ] {
            assert_eq!(message(text, bytes, "no"), expected);
        }
        assert_eq!(message(text, Some(0..1), "no\nnot so"), "line 1: no, not so");
    }
}
