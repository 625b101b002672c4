//! Text of files as messages show it.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

/// The same text, with whatever could change how a terminal shows it escaped: control characters,
/// newlines among them, and marks that turn the direction of writing.
///
/// ```
/// use sweephand_trace::shown;
///
/// assert_eq!(shown("user:7 näme"), "user:7 näme");
/// assert_eq!(shown("\u{1b}[2J\n"), "\\u{1b}[2J\\n");
/// ```
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unseen) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match is_unseen(c) {
            true => write!(escaped, "{}", c.escape_default()).expect("a string takes everything"),
            false => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// A word as a shell reads it: as it is, or in quotes. A word with control characters has the
/// quotes of bash and zsh.
///
/// ```
/// use sweephand_trace::in_shell;
///
/// assert_eq!(in_shell("a.csv"), "a.csv");
/// assert_eq!(in_shell("my log.csv"), "'my log.csv'");
/// assert_eq!(in_shell("-o"), "./-o");
/// ```
pub fn in_shell(word: impl AsRef<OsStr>) -> String {
    let bytes = word.as_ref().as_bytes();
    let Ok(word) = str::from_utf8(bytes) else {
        let escaped = bytes.iter().map(|byte| match byte {
            b' '..=b'~' if !matches!(byte, b'\'' | b'\\') => char::from(*byte).to_string(),
            byte => format!("\\x{byte:02x}"),
        });
        return format!("$'{}'", escaped.collect::<String>());
    };
    // Not an option, whatever its name.
    let word = if word.len() > 1 && word.starts_with('-') { format!("./{word}") } else { word.to_owned() };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./,=:@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word;
    }
    if !word.chars().any(is_unseen) {
        return format!("'{}'", word.replace('\'', r"'\''"));
    }
    let mut quoted = String::from("$'");
    for c in word.chars() {
        match c {
            '\'' | '\\' => quoted.extend(['\\', c]),
            c if is_unseen(c) => {
                let mut bytes = [0; 4];
                let bytes = c.encode_utf8(&mut bytes).bytes();
                bytes.for_each(|byte| write!(quoted, "\\x{byte:02x}").expect("a string takes everything"));
            }
            c => quoted.push(c),
        }
    }
    quoted + "'"
}

/// Whether a character is an instruction to a terminal rather than something to be seen.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        for (text, expected) in [
            ("\t|\r|\u{7f}|\0", r"\t|\r|\u{7f}|\u{0}"),
            ("\u{9b}31m", r"\u{9b}31m"),
            ("\u{202e}gpj.exe", r"\u{202e}gpj.exe"),
            ("a\u{2028}b\u{feff}", r"a\u{2028}b\u{feff}"),
            ("日本語 “quoted” \\ '", "日本語 “quoted” \\ '"),
        ] {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_shell_gives_back_every_word() {
        let words = [
            "a",
            "a b",
            "it's",
            "$HOME",
            "`id`",
            "a\tb\u{1b}[2J",
            "\"",
            "näme;",
            "",
            "\\",
            "*",
            "~/x",
            "a#b",
            "#",
        ];
        for word in words {
            let script = format!("printf %s {}", in_shell(word));
            let output = std::process::Command::new("bash").args(["-c", &script]).output().expect("bash");
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word, "{script}");
            assert!(!in_shell(word).chars().any(char::is_control), "{word:?}");
        }
        assert_eq!(in_shell("--help"), "./--help");
        let output = std::process::Command::new("bash")
            .args(["-c", &format!("printf %s {}", in_shell(OsStr::from_bytes(b"a\xff'b")))])
            .output()
            .expect("bash");
        assert_eq!(output.stdout, b"a\xff'b");
    }
}
