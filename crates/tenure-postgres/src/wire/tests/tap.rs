use std::{
    io,
    pin::Pin,
    sync::{Mutex, MutexGuard},
    task::{Context, Poll, Waker},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use super::Arc;

/// A socket with a tap.
pub(super) struct Tapped {
    pub(super) stream: TcpStream,
    pub(super) tap: Arc<Tap>,
}

/// What is written goes through and is remembered; what comes from the server can be withheld.
#[derive(Default)]
pub(super) struct Tap(Mutex<State>);

#[derive(Default)]
struct State {
    written: Vec<u8>,
    reads: usize,
    flow: Flow,
    /// Whom to wake when something can be read again.
    reader: Option<Waker>,
    meanwhile: Option<(Step, Box<dyn FnOnce() + Send>)>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Flow {
    #[default]
    Open,
    Withheld,
    Ended,
}

/// What a drive does, in this order. It looks for requests after it has read, and before it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Read,
    Write,
    Flush,
}

impl Tap {
    /// Says nothing from now on.
    pub(super) fn withhold(&self) {
        self.lock().flow = Flow::Withheld;
    }

    /// Says what was withheld, to whoever was told of it last.
    pub(super) fn pass_on(&self) {
        self.lock().flow = Flow::Open;
        self.wake();
    }

    /// The server hangs up. Nobody is woken by that.
    pub(super) fn end(&self) {
        self.lock().flow = Flow::Ended;
    }

    /// Does this at the next such step.
    pub(super) fn meanwhile(&self, step: Step, what: impl FnOnce() + Send + 'static) {
        self.lock().meanwhile = Some((step, Box::new(what)));
    }

    pub(super) fn wrote(&self, word: &str) -> bool {
        self.lock().written.windows(word.len()).any(|part| part == word.as_bytes())
    }

    /// How often somebody tried to read.
    pub(super) fn reads(&self) -> usize {
        self.lock().reads
    }

    fn at(&self, step: Step) {
        let mut state = self.lock();
        if let Some((_, what)) = state.meanwhile.take_if(|(at, _)| *at == step) {
            drop(state);
            what();
        }
    }

    fn wake(&self) {
        let reader = self.lock().reader.take();
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl AsyncRead for Tapped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.tap.at(Step::Read);
        let flow = {
            let mut state = self.tap.lock();
            state.reads += 1;
            state.reader = Some(cx.waker().clone());
            state.flow
        };
        match flow {
            Flow::Open => Pin::new(&mut self.stream).poll_read(cx, into),
            Flow::Withheld => Poll::Pending,
            Flow::Ended => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Tapped {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.tap.at(Step::Write);
        let wrote = Pin::new(&mut self.stream).poll_write(cx, from);
        if let Poll::Ready(Ok(count)) = &wrote {
            self.tap.lock().written.extend(&from[..*count]);
        }
        wrote
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tap.at(Step::Flush);
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
