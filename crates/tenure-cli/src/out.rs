//! Where words go: the verbs' answers to stdout, everything else to stderr, one line at a time.

use std::{
    fs,
    io::{self, Write},
    path::Path,
    str::FromStr,
};

use rustix::termios::tcgetwinsize;

use crate::exit::Failure;

/// Where a terminal does not tell how wide it is.
const USUAL_WIDTH: usize = 100;

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

/// How wide the terminal is.
pub(crate) fn width() -> usize {
    tcgetwinsize(io::stdout()).map_or(USUAL_WIDTH, |size| usize::from(size.ws_col))
}

/// Writes a page to a file.
pub(crate) fn page(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|err| Failure::usage(format!("cannot write {}: {err}", path.display())))
}

/// What is named between commas, each once.
pub(crate) fn listed<T: FromStr<Err = String> + PartialEq>(list: &str) -> Result<Vec<T>, Failure> {
    let mut all = Vec::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let one = name.parse().map_err(Failure::usage)?;
        if !all.contains(&one) {
            all.push(one);
        }
    }
    Ok(all)
}
