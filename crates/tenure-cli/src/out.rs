//! Where words go: the verbs' answers to stdout, everything else to stderr, one line at a time.

use std::io::{self, Write};

/// Says a line on stderr. A stderr that is closed or full is no reason to stop.
pub(crate) fn say(message: &str) {
    write_err(&format!("tenure: {message}\n"));
}

/// Writes to stderr in one piece, so that lines of two processes do not mix.
pub(crate) fn write_err(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Writes an answer to stdout. A reader that went away, such as `head`, has heard enough.
pub(crate) fn answer(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
