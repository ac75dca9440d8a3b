//! The loop that most people write: `add`, a sleep of 100 ms when that fails, `delete`.

use std::time::Duration;

use tenure_testkit::memcached::Memcached;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufStream},
    net::TcpStream,
};

pub(crate) struct Rival {
    stream: BufStream<TcpStream>,
}

impl Rival {
    pub(crate) const NAME: &str = "classic loop";
    pub(crate) const REQUESTS: &str = "commands";

    pub(crate) async fn open(url: &str, _task: usize) -> Self {
        let stream = TcpStream::connect(url.strip_prefix("memcached://").unwrap()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufStream::new(stream) }
    }

    pub(crate) async fn acquire(&mut self) {
        while self.ask("add classic 0 15 1\r\n1\r\n").await != "STORED\r\n" {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) async fn release(&mut self) {
        self.ask("delete classic\r\n").await;
    }

    async fn ask(&mut self, command: &str) -> String {
        self.stream.write_all(command.as_bytes()).await.unwrap();
        self.stream.flush().await.unwrap();
        let mut answer = String::new();
        self.stream.read_line(&mut answer).await.unwrap();
        answer
    }

    pub(crate) fn requests(server: &Memcached) -> f64 {
        let figure = |name: &str| server.stat(name).unwrap().parse::<f64>().unwrap();
        ["cmd_get", "cmd_set", "delete_hits", "delete_misses"].map(figure).iter().sum()
    }
}
