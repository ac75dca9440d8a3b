//! The wires between the servers of a cluster, one for each direction, so that one server can be cut off from the rest
//! while they hear each other.
//!
//! A member has one address for all others, so who dials it must be found out: by the process that owns the other end
//! of the connection, as the kernel knows it.

use std::{
    fs,
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use crate::{
    Failure, Result,
    process::{Port, Server},
    proxy::{Flow, Proxy},
};

#[derive(Debug)]
pub(super) struct Wires {
    /// Where each server is reached by the others.
    ends: Vec<Port>,
    /// From one server to another.
    wires: Vec<Vec<Proxy>>,
    /// The processes of the servers.
    pids: Mutex<Vec<Option<u32>>>,
}

impl Wires {
    /// Lays wires to these servers.
    pub(super) fn lay(servers: &[SocketAddr]) -> Result<Arc<Self>> {
        let ends = servers.iter().map(|_| Port::claim()).collect::<Result<Vec<_>>>()?;
        let to_all = || servers.iter().map(|&server| Proxy::start(server)).collect::<Result<Vec<_>>>();
        let wires = servers.iter().map(|_| to_all()).collect::<Result<Vec<_>>>()?;
        let this = Arc::new(Self { ends, wires, pids: Mutex::new(vec![None; servers.len()]) });
        for to in 0..servers.len() {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, this.ends[to].number()))?;
            let this = Arc::downgrade(&this);
            // It ends with the test process; until then a connection nobody claims is closed.
            thread::Builder::new().name(format!("wires-to-{to}")).spawn(move || {
                for stream in listener.incoming().flatten() {
                    let Some(this) = this.upgrade() else { return };
                    // Whom nobody knows is no member: it is left alone.
                    if let Some(from) = this.dialler(&stream) {
                        let _ = carry(stream, this.wires[from][to].addr());
                    }
                }
            })?;
        }
        Ok(this)
    }

    pub(super) fn addr(&self, to: usize) -> SocketAddr {
        self.ends[to].addr()
    }

    /// Says which process a server is.
    pub(super) fn belongs(&self, at: usize, server: &Server) {
        self.pids.lock().unwrap_or_else(PoisonError::into_inner)[at] = server.id();
    }

    /// Lets nothing through to this server or from it, without a word to either end.
    pub(super) fn cut(&self, at: usize) -> Result {
        self.between(at).try_for_each(|wire| wire.flow_both(Flow::Swallow))
    }

    pub(super) fn join(&self) -> Result {
        self.wires.iter().flatten().try_for_each(Proxy::heal)
    }

    fn between(&self, at: usize) -> impl Iterator<Item = &Proxy> {
        let all = self.wires.iter().enumerate();
        all.flat_map(move |(from, wires)| {
            wires.iter().enumerate().filter(move |&(to, _)| from == at || to == at).map(|(_, wire)| wire)
        })
    }

    fn dialler(&self, stream: &TcpStream) -> Option<usize> {
        let inode = inode(stream).ok()?;
        let pids = self.pids.lock().unwrap_or_else(PoisonError::into_inner).clone();
        pids.iter().position(|pid| pid.is_some_and(|pid| owns(pid, &inode)))
    }
}

/// The number of the socket at the other end of a connection on loopback.
fn inode(stream: &TcpStream) -> Result<String> {
    let (there, here) = (stream.peer_addr()?.port(), stream.local_addr()?.port());
    let [there, here] = [there, here].map(|port| format!(":{port:04X}"));
    let table = fs::read_to_string("/proc/net/tcp")?;
    let socket = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut socket =
        socket.filter(|line| line.len() > 9 && line[1].ends_with(&there) && line[2].ends_with(&here));
    let found = socket.next().ok_or_else(|| Failure::of_the_trial("a connection without an end"))?;
    Ok(format!("socket:[{}]", found[9]))
}

fn owns(pid: u32, inode: &str) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.into_iter().any(|file| fs::read_link(file.path()).is_ok_and(|link| link.as_os_str() == inode))
}

/// Carries a connection on to another address, until either end is closed.
fn carry(near: TcpStream, to: SocketAddr) -> io::Result<()> {
    let far = TcpStream::connect(to)?;
    for stream in [&near, &far] {
        stream.set_nodelay(true)?;
    }
    for (mut from, mut to) in [(near.try_clone()?, far.try_clone()?), (far, near)] {
        thread::Builder::new().name("wire".into()).spawn(move || {
            let mut buffer = [0; 16 << 10];
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                if to.write_all(&buffer[..length]).is_err() {
                    break;
                }
            }
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        })?;
    }
    Ok(())
}
