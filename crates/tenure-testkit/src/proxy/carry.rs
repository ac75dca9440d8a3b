use std::{sync::Arc, time::Duration};

use tokio::{
    io::AsyncReadExt,
    net::TcpStream,
    sync::{OwnedSemaphorePermit, watch},
    time::timeout,
};

use super::{Plan, Shared, Side, Way, pump::pump};

/// How long the server may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Both sides have closed it.
    Closed,
    /// It is broken off on both sides.
    Reset,
    /// One side is closed, the other is kept and hears nothing.
    Half(Side),
}

/// Takes back the place of a connection, however it ends.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.count(|counts| counts.open -= 1);
    }
}

/// Carries one connection until it ends.
pub(super) async fn carry(
    mut client: TcpStream,
    shared: Arc<Shared>,
    born: Plan,
    place: OwnedSemaphorePermit,
) {
    // Dropped last: a connection counts as open until its sockets are closed.
    let open = Open(shared.clone());
    let mut plan = shared.plan.subscribe();
    let connected = tokio::select! {
        biased;
        _ = doom(&mut plan, born) => None,
        connected = timeout(CONNECT_LIMIT, TcpStream::connect(born.target)) => connected.ok().and_then(Result::ok),
    };
    let Some(mut server) = connected else {
        break_off(client);
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let end = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let both = async {
            let up = pump(Way::Up, from_client, to_server, &shared);
            let down = pump(Way::Down, from_server, to_client, &shared);
            match tokio::try_join!(up, down) {
                Ok(((), ())) => End::Closed,
                Err(end) => end,
            }
        };
        // First what was asked of the proxy: nothing that is sent after the call is passed on.
        tokio::select! {
            biased;
            end = doom(&mut plan, born) => end,
            end = both => end,
        }
    };
    match end {
        End::Closed => {}
        End::Reset => {
            break_off(client);
            break_off(server);
        }
        End::Half(Side::Server) => {
            drop(server);
            keep(client, &mut plan, born).await;
        }
        End::Half(Side::Client) => {
            drop(client);
            keep(server, &mut plan, born).await;
        }
    }
    drop((place, open));
}

/// Waits until something is asked that ends this connection.
async fn doom(plan: &mut watch::Receiver<Plan>, born: Plan) -> End {
    loop {
        let now = *plan.borrow_and_update();
        if now.resets != born.resets {
            return End::Reset;
        }
        if now.halves != born.halves {
            return End::Half(now.gone);
        }
        if plan.changed().await.is_err() {
            return End::Reset;
        }
    }
}

/// Keeps one side open and mute until it closes or all is reset.
async fn keep(mut side: TcpStream, plan: &mut watch::Receiver<Plan>, born: Plan) {
    let born = Plan { halves: plan.borrow().halves, ..born };
    let mut lost = vec![0; 4096];
    let closed = async { while matches!(side.read(&mut lost).await, Ok(1..)) {} };
    let reset = tokio::select! {
        biased;
        end = doom(plan, born) => end == End::Reset,
        () = closed => false,
    };
    if reset {
        break_off(side);
    }
}

fn break_off(stream: TcpStream) {
    let _ = stream.set_zero_linger();
    drop(stream);
}
