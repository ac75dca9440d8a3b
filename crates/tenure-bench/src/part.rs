//! Another process of a bench: it does what it is told on stdin, and says on stdout what it saw.

use std::{
    io::{self, BufRead, Write},
    process::ExitCode,
    thread,
};

use tokio::{runtime::Builder, sync::mpsc};

use crate::{
    player::Player,
    trouble::{Result, Trouble},
    wire::{Order, Says},
};

/// Runs this process as a part of a bench: its orders come over stdin, its answers go to stdout.
#[must_use]
pub fn main() -> ExitCode {
    let done = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|err| Trouble::internal("cannot start", err))
        .and_then(|runtime| {
            // On a worker, as most programs run, not on the thread that parks here.
            let done = runtime.block_on(async { tokio::spawn(play()).await });
            // What is still on its way belongs to nobody.
            runtime.shutdown_background();
            done.unwrap_or_else(|err| Err(Trouble::internal("a part", err)))
        });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            let unavailable = !matches!(trouble, Trouble::Internal(_));
            say(&Says::Failed { why: trouble.to_string(), unavailable });
            ExitCode::FAILURE
        }
    }
}

async fn play() -> Result<()> {
    let mut orders = orders();
    let Some(Order::Open { url }) = next(&mut orders).await? else {
        return Err(Trouble::Internal("the first order is to open".into()));
    };
    let mut player = Player::open(&url).await?;
    say(&Says::Ready);
    while let Some(order) = next(&mut orders).await? {
        say(&player.play(order).await?);
    }
    Ok(())
}

async fn next(orders: &mut mpsc::UnboundedReceiver<String>) -> Result<Option<Order>> {
    let Some(line) = orders.recv().await else { return Ok(None) };
    serde_json::from_str(&line).map(Some).map_err(|err| Trouble::internal("an order", err))
}

/// The lines of stdin. When it ends, so does this process: nobody is left to tell.
fn orders() -> mpsc::UnboundedReceiver<String> {
    let (lines, orders) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(std::result::Result::ok) {
            let _ = lines.send(line);
        }
        std::process::exit(1);
    });
    orders
}

fn say(says: &Says) {
    let mut out = io::stdout().lock();
    let line = serde_json::to_string(says).unwrap_or_default() + "\n";
    // Whoever went away hears nothing more, and stdin ends us.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}
