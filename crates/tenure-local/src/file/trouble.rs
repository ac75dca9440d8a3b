//! What an error of the operating system means here.

use std::{fmt, io};

use tenure_core::{Error, ErrorKind, Op};

/// The error of this verb, saying what could not be done and what helps.
pub(super) fn trouble(op: Op, what: impl fmt::Display, err: io::Error) -> Error {
    use rustix::io::Errno;
    let Some(errno) = Errno::from_io_error(&err) else {
        return Error::unavailable(op, what.to_string()).with_source(err);
    };
    let (kind, help) = match errno {
        Errno::ACCESS | Errno::PERM => (ErrorKind::Denied, "; check its owner and mode"),
        Errno::ROFS => (ErrorKind::Denied, "; give a directory on a writable file system"),
        Errno::LOOP => (ErrorKind::Denied, "; a symbolic link stands there, remove it"),
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => (ErrorKind::Unavailable, "; free some space"),
        Errno::MFILE | Errno::NFILE => {
            (ErrorKind::Unavailable, "; raise the limit of open files (ulimit -n)")
        }
        Errno::NOTDIR | Errno::ISDIR => (ErrorKind::Broken, "; something else stands there, remove it"),
        // Nothing that changes a line fails in any other way without the disk being in trouble.
        _ => return Error::unavailable(op, what.to_string()).with_source(err),
    };
    Error::new(kind, op, format!("{what}{help}")).with_source(err).not_applied()
}

/// A file that is not what this engine wrote. Nothing was touched.
pub(super) fn damaged(op: Op, file: impl fmt::Display, what: impl fmt::Display) -> Error {
    let message = format!(
        "{file} is damaged: it has {what}; keep a copy of it, end all processes that use this directory, remove the file"
    );
    Error::new(ErrorKind::Broken, op, message).not_applied()
}
