//! The directory: made, checked, and opened once; everything in it is then named relative to open directories.

use std::{
    ffi::CStr,
    fs::{DirBuilder, File},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{DirBuilderExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use tenure_core::{Error, ErrorKind, Fences, Op, Result};

use super::{NetworkFs, trouble::trouble};

/// An open directory of the engine and its two parts.
#[derive(Debug)]
pub(super) struct Dir {
    pub(super) path: PathBuf,
    pub(super) root: OwnedFd,
    /// One file per key.
    pub(super) line: OwnedFd,
    /// One pipe per open engine.
    pub(super) proc: OwnedFd,
    pub(super) fences: Fences,
}

impl Dir {
    /// Opens the directory, making it if there is none.
    pub(super) fn open(path: &Path, network_fs: NetworkFs) -> Result<Self> {
        let shown = path.display();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .or_else(|err| if path.exists() { Ok(()) } else { Err(err) })
            .map_err(|err| trouble(Op::Connect, format!("cannot make the directory {shown}"), err))?;
        let root =
            open_dir(rustix::fs::CWD, path).map_err(|err| match rustix::io::Errno::from_io_error(&err) {
                Some(rustix::io::Errno::NOTDIR) if path.is_symlink() => refused(
                    ErrorKind::Denied,
                    format!("{shown} is a symbolic link; give the directory it leads to"),
                ),
                Some(rustix::io::Errno::NOTDIR) => refused(
                    ErrorKind::Invalid,
                    format!("{shown} is not a directory; give another path or move it away"),
                ),
                _ => trouble(Op::Connect, format!("cannot open the directory {shown}"), err),
            })?;
        let root = File::from(root);
        let meta =
            root.metadata().map_err(|err| trouble(Op::Connect, format!("cannot look at {shown}"), err))?;
        check_owner(path, meta.uid(), rustix::process::geteuid().as_raw(), meta.mode())?;
        let magic = rustix::fs::fstatfs(&root)
            .map_err(|err| {
                trouble(Op::Connect, format!("cannot ask for the file system of {shown}"), err.into())
            })?
            .f_type;
        let fences = match FileSystem::by_magic(magic as u32) {
            FileSystem::Network(name) if network_fs == NetworkFs::Refuse => {
                return Err(refused(
                    ErrorKind::Invalid,
                    format!(
                        "{shown} is on {name}, where other machines do not see who lives here; use a local directory, \
                         or add network_fs=allow if only this machine uses it"
                    ),
                ));
            }
            FileSystem::Memory => Fences::ClockBound,
            FileSystem::Network(_) | FileSystem::Local => Fences::Durable,
        };
        let part = |name: &str| {
            let failed = |err| trouble(Op::Connect, format!("cannot open {shown}/{name}"), err);
            match rustix::fs::mkdirat(&root, name, Mode::RWXU) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(err) => return Err(failed(err.into())),
            }
            open_dir(&root, Path::new(name)).map_err(failed)
        };
        let (line, proc) = (part("line")?, part("proc")?);
        Ok(Self { path: path.to_owned(), root: root.into(), line, proc, fences })
    }

    /// Makes what was created in the directory, and the directory itself, survive a loss of power.
    pub(super) fn sync(&self) -> io::Result<()> {
        rustix::fs::fsync(&self.root)?;
        if let Some(parent) = self.path.parent() {
            // A parent that we may use but not read cannot be synced; the directory then was there before us.
            if let Ok(parent) = File::open(parent) {
                parent.sync_all()?;
            }
        }
        Ok(())
    }
}

/// The mode of every file and pipe. The sticky bit asks those who clean `XDG_RUNTIME_DIR` of files that nobody
/// has looked at for hours to leave them, as its specification says.
pub(super) const OURS: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::SVTX);

/// Opens a regular file of ours for reading and writing.
pub(super) fn open_file(dir: impl AsFd, name: &str, create: bool) -> io::Result<File> {
    // Not blocking, lest somebody put a pipe there.
    let mut flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    flags.set(OFlags::CREATE, create);
    let file = File::from(rustix::fs::openat(dir, name, flags, OURS)?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(rustix::io::Errno::ISDIR.into()) }
}

/// The names in a directory, at most so many, without those that start with a dot.
pub(super) fn names(dir: impl AsFd, most: usize) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir)? {
        let entry = entry?;
        let is_file = matches!(entry.file_type(), FileType::RegularFile | FileType::Fifo | FileType::Unknown);
        if let Some(name) =
            CStr::to_str(entry.file_name()).ok().filter(|name| is_file && !name.starts_with('.'))
        {
            names.push(name.to_owned());
            if names.len() == most {
                break;
            }
        }
    }
    Ok(names)
}

pub(super) fn remove(dir: impl AsFd, name: &str) -> io::Result<()> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(err) => Err(err.into()),
    }
}

fn open_dir(at: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, path, flags, Mode::empty())?)
}

fn refused(kind: ErrorKind, message: String) -> Error {
    Error::new(kind, Op::Connect, message).not_applied()
}

/// Whoever can write into the directory can take every lock, and whoever can open its files can block them.
fn check_owner(path: &Path, owner: u32, us: u32, mode: u32) -> Result<()> {
    let path = path.display();
    if owner != us {
        return Err(refused(
            ErrorKind::Denied,
            format!(
                "{path} belongs to user {owner} and this process runs as {us}; give a directory of its own"
            ),
        ));
    }
    if mode & 0o077 != 0 {
        return Err(refused(
            ErrorKind::Denied,
            format!("others may enter {path} (mode {:03o}); run `chmod 700 {path}`", mode & 0o777),
        ));
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileSystem {
    Local,
    /// Gone after a restart.
    Memory,
    /// Seen by other machines, whose processes we could not tell apart from dead ones.
    Network(&'static str),
}

impl FileSystem {
    const fn by_magic(magic: u32) -> Self {
        match magic {
            0x0102_1994 | 0x8584_58f6 => Self::Memory,
            0x6969 => Self::Network("NFS"),
            0x517b | 0xff53_4d42 | 0xfe53_4d42 => Self::Network("SMB"),
            0x0102_1997 => Self::Network("9p"),
            0x6573_5546 => Self::Network("FUSE"),
            0x00c3_6400 => Self::Network("Ceph"),
            0x0bd0_0bd0 => Self::Network("Lustre"),
            0x5346_414f | 0x6b41_4653 => Self::Network("AFS"),
            0x7375_7245 => Self::Network("Coda"),
            0x0116_1970 => Self::Network("GFS2"),
            0x7461_636f => Self::Network("OCFS2"),
            0x4750_4653 => Self::Network("GPFS"),
            0x786f_4256 => Self::Network("a VirtualBox share"),
            _ => Self::Local,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_numbers() {
        for magic in [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x6573_5546, 0x00c3_6400] {
            assert!(matches!(FileSystem::by_magic(magic), FileSystem::Network(_)), "{magic:x}");
        }
        assert_eq!(FileSystem::by_magic(0x0102_1994), FileSystem::Memory);
        for magic in [0xef53, 0x9123_683e, 0x5846_5342, 0x794c_7630, 0x2fc1_2fc1] {
            assert_eq!(FileSystem::by_magic(magic), FileSystem::Local, "{magic:x}");
        }
    }

    #[test]
    fn a_directory_of_somebody_else_or_open_to_others_is_refused() {
        let path = Path::new("/srv/locks");
        assert!(check_owner(path, 1000, 1000, 0o40700).is_ok());
        let err = check_owner(path, 0, 1000, 0o40700).unwrap_err().to_string();
        assert!(err.contains("belongs to user 0") && err.contains("runs as 1000"), "{err}");
        for mode in [0o40750, 0o40701, 0o40777, 0o41777] {
            let err = check_owner(path, 1000, 1000, mode).unwrap_err();
            assert_eq!(err.kind(), ErrorKind::Denied);
            assert!(err.to_string().contains("chmod 700 /srv/locks"), "{err}");
        }
    }
}
