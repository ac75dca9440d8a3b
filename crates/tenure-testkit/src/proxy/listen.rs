use std::{io, net, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::sleep,
};

use super::{Plan, Shared, carry::carry};

/// How many connections are carried at once; those beyond are reset.
const MAX_CONNECTIONS: usize = 1_024;

/// Accepts connections as the plan says until it says to close.
///
/// It follows no plan under which it cannot listen: whoever asked for that is told, by the wait running out.
pub(super) async fn listen(addr: net::SocketAddr, shared: &Arc<Shared>) {
    let mut plan = shared.plan.subscribe();
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut door: Option<Door> = None;
    let mut followed = *plan.borrow();
    let admit = |client: TcpStream, followed: Plan| match places.clone().try_acquire_owned() {
        Ok(place) => {
            shared.count(|counts| {
                counts.connections += 1;
                counts.open += 1;
            });
            tokio::spawn(carry(client, shared.clone(), followed, place));
        }
        Err(_) => drop(client.set_zero_linger()),
    };
    loop {
        let now = *plan.borrow_and_update();
        if now.closes {
            return;
        }
        if now.version != followed.version {
            // Whoever waits at the door came before whoever asked for the change was told that it is done.
            door.iter().flat_map(Door::waiting).for_each(|client| admit(client, followed));
        }
        if !now.listens {
            door = None;
        } else if door.is_none() {
            door = Door::open(addr).ok();
        }
        if now.listens == door.is_some() {
            followed = now;
            shared.follow(now.version);
        }
        let next = async {
            match &door {
                Some(door) => door.listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = plan.changed() => {}
            next = next => match next {
                Ok((client, _)) => admit(client, followed),
                // Out of descriptors, most likely: others may be closed meanwhile.
                Err(_) => sleep(Duration::from_millis(10)).await,
            },
        }
    }
}

/// A listening socket twice: tokio's learns from its reactor that somebody waits, which may be late; the other one asks
/// the kernel.
struct Door {
    listener: TcpListener,
    direct: net::TcpListener,
}

impl Door {
    fn open(addr: net::SocketAddr) -> io::Result<Self> {
        let direct = net::TcpListener::bind(addr)?;
        direct.set_nonblocking(true)?;
        Ok(Self { listener: TcpListener::from_std(direct.try_clone()?)?, direct })
    }

    /// Those who wait to be let in.
    fn waiting(&self) -> impl Iterator<Item = TcpStream> {
        let clients = std::iter::from_fn(|| self.direct.accept().ok()).take(MAX_CONNECTIONS);
        clients.filter_map(|(client, _)| {
            client.set_nonblocking(true).ok()?;
            TcpStream::from_std(client).ok()
        })
    }
}
