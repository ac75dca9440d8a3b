//! A way to a server that counts round trips: each time the client speaks after the server did.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

#[derive(Debug)]
pub(crate) struct Wire {
    addr: SocketAddr,
    trips: Arc<AtomicU64>,
}

impl Wire {
    /// Carries connections to this server for as long as the process lives.
    pub(crate) fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let wire = Self { addr: listener.local_addr().unwrap(), trips: Arc::default() };
        let trips = wire.trips.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(server) else { continue };
                carry(&client, &server, &trips);
            }
        });
        wire
    }

    /// The same URL, by this way.
    pub(crate) fn url(&self, url: &str, server: SocketAddr) -> String {
        url.replace(&server.to_string(), &self.addr.to_string())
    }

    pub(crate) fn trips(&self) -> u64 {
        self.trips.load(Ordering::SeqCst)
    }
}

/// Counts before it passes anything on, so that whoever has an answer sees its trip counted.
fn carry(client: &TcpStream, server: &TcpStream, trips: &Arc<AtomicU64>) {
    let answered = Arc::new(AtomicBool::new(true));
    for end in [client, server] {
        end.set_nodelay(true).unwrap();
    }
    let clone = |end: &TcpStream| end.try_clone().unwrap();
    let (trips, asked) = (trips.clone(), answered.clone());
    pump(clone(client), clone(server), move || {
        if asked.swap(false, Ordering::SeqCst) {
            trips.fetch_add(1, Ordering::SeqCst);
        }
    });
    pump(clone(server), clone(client), move || answered.store(true, Ordering::SeqCst));
}

fn pump(mut from: TcpStream, mut to: TcpStream, seen: impl Fn() + Send + 'static) {
    thread::spawn(move || {
        let mut bytes = [0; 65_536];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            seen();
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    });
}
