//! Private memcached servers for tests.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    Failure, Result, ensure,
    process::{Launch, Port, Room, Server, WallClock, wait_until},
    programs::{find, missing, need, unless_root},
};

/// Who it is when the test is root, which it refuses to be.
const USER: &str = "memcache";
/// How long it may take until it answers, on a machine busy with other things.
const START_LIMIT: Duration = Duration::from_secs(10);
/// How long one answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// It says that it is two seconds old when it starts. Locks are granted from the first full second on.
const OLD_ENOUGH: u64 = 4;

/// Says which package is missing, if one is.
///
/// # Errors
/// What to install, for [`Found::Missing`](crate::servers::Found::Missing).
pub fn installed() -> Result<(), String> {
    need(&[("memcached", "memcached")])
}

/// How a server is set up. The default has 64 MB and lets everybody in.
#[derive(Clone, Debug, Default)]
pub struct MemcachedOptions {
    /// Who must log in, and with which password.
    pub login: Option<(String, String)>,
    /// More arguments for its command line, which win over the usual ones: `["-m", "2"]`.
    pub args: Vec<String>,
    /// Whether it has a wall clock of its own, for [`step_clock`](crate::process::Server::step_clock).
    pub clock: bool,
}

/// One private memcached; gone when dropped.
#[derive(Debug)]
pub struct Memcached {
    server: Server,
    options: MemcachedOptions,
    port: Port,
}

impl Memcached {
    /// Starts a server and waits until it answers and is old enough to grant locks, which takes a second or two.
    ///
    /// # Errors
    /// If it does not; the message has the end of its log.
    pub fn start(options: MemcachedOptions) -> Result<Self> {
        let memcached = Self::launch(options)?;
        memcached.wait_ready()?;
        Ok(memcached)
    }

    /// Three servers, started at the same time.
    ///
    /// # Errors
    /// If one did not start.
    pub fn three() -> Result<[Self; 3]> {
        let options = MemcachedOptions::default;
        let three = [Self::launch(options())?, Self::launch(options())?, Self::launch(options())?];
        three.iter().try_for_each(Self::wait_ready)?;
        Ok(three)
    }

    /// One server with the default options that the tests of one binary share.
    ///
    /// # Errors
    /// If it did not start.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<Memcached>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(MemcachedOptions::default())).as_ref().map_err(Clone::clone)
    }

    fn launch(options: MemcachedOptions) -> Result<Self> {
        let room = Room::new()?;
        let port = Port::claim()?;
        let program =
            find("memcached").ok_or_else(|| Failure::of_the_trial(missing("memcached", "memcached")))?;
        let number = port.number().to_string();
        // One thread: most servers are alone on their machine, these are many.
        let mut args: Vec<String> =
            ["-l", "127.0.0.1", "-p", &number, "-U", "0", "-t", "1"].map(str::to_owned).into();
        if let Some((user, password)) = &options.login {
            let file = room.path().join("logins");
            fs::write(&file, format!("{user}:{password}\n"))?;
            args.extend(["-Y".to_owned(), file.display().to_string()]);
        }
        args.extend(options.args.iter().cloned());
        let mut launch = Launch::new(program.display().to_string(), args);
        launch.user = unless_root(USER);
        launch.clock = options.clock.then(|| WallClock::new(room.path())).transpose()?;
        let server = Server::start(launch, room)?;
        Ok(Self { server, options, port })
    }

    fn wait_ready(&self) -> Result {
        self.server.wait_ready(START_LIMIT, || {
            let uptime: u64 = self.stat("uptime")?.parse().unwrap_or(0);
            ensure!(uptime >= OLD_ENOUGH, "it is too young");
            Ok(())
        })
    }

    /// Its port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port.number()
    }

    /// Its address.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// What a client opens it with, with user and password if it wants them.
    #[must_use]
    pub fn url(&self) -> String {
        let login = self.options.login.as_ref().map(|(user, password)| format!("{user}:{password}@"));
        format!("memcached://{}{}", login.unwrap_or_default(), self.addr())
    }

    crate::process::operated!();

    /// Sends these bytes on a connection of its own, and gives what comes back up to this end.
    ///
    /// # Errors
    /// If it does not answer so.
    pub fn ask(&self, command: &[u8], end: &str) -> Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.addr(), ANSWER_LIMIT)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        if let Some((user, password)) = &self.options.login {
            let words = format!("{user} {password}");
            stream.write_all(format!("set login 0 0 {}\r\n{words}\r\n", words.len()).as_bytes())?;
            read_until(&mut stream, "STORED\r\n")?;
        }
        stream.write_all(command)?;
        read_until(&mut stream, end)
    }

    /// One figure of `stats`.
    ///
    /// # Errors
    /// If it does not answer or has no such figure.
    pub fn stat(&self, name: &str) -> Result<String> {
        let stats = self.ask(b"stats\r\n", "END\r\n")?;
        let mut lines = stats.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
        lines
            .find_map(|(stat, value)| (stat == name).then(|| value.to_owned()))
            .ok_or_else(|| Failure::of_the_trial(format!("stats has no `{name}`")))
    }

    /// Its wall clock, in seconds. It shows it nowhere but in the lines that it logs for whoever watches.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn wall_clock(&self) -> Result<f64> {
        let mut watch = TcpStream::connect_timeout(&self.addr(), ANSWER_LIMIT)?;
        watch.set_read_timeout(Some(ANSWER_LIMIT))?;
        watch.write_all(b"watch fetchers\r\n")?;
        // Line by line: those that others make it log may follow without an end.
        let mut lines = BufReader::new(watch);
        let mut line = String::new();
        lines.read_line(&mut line)?;
        ensure!(line == "OK\r\n", "it does not let itself be watched: {line:?}");
        self.ask(b"mg testkit-clock v\r\n", "EN\r\n")?;
        line.clear();
        lines.read_line(&mut line)?;
        logged_at(&line).ok_or_else(|| Failure::of_the_trial(format!("it logged {line:?}")))
    }

    /// How many items with an end of their own had to go because memory was full.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn evicted_before_their_end(&self) -> Result<u64> {
        let stats = self.ask(b"stats items\r\n", "END\r\n")?;
        let counts =
            stats.lines().filter_map(|line| line.split_once(":evicted_nonzero ")?.1.parse::<u64>().ok());
        Ok(counts.sum())
    }

    /// The names of all items. Unlike a question for one, this does not keep them from being forgotten.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn items(&self) -> Result<Vec<String>> {
        let mut all = String::new();
        // It refuses while it looks for dead items itself.
        wait_until("the server lists its items", START_LIMIT, || {
            all = self.ask(b"lru_crawler metadump all\r\n", "\r\n")?;
            ensure!(!all.starts_with("BUSY"), "it is busy");
            if !all.ends_with("END\r\n") {
                all = self.ask(b"lru_crawler metadump all\r\n", "END\r\n")?;
            }
            Ok(())
        })?;
        let name = |line: &str| line.strip_prefix("key=")?.split(' ').next().map(decoded);
        Ok(all.lines().filter_map(name).collect())
    }

    /// Stores items until so many older ones had to go, and says how many went.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn fill_until_it_forgets(&self, items: u64) -> Result<u64> {
        // Never the same name twice: an item that takes the place of another makes nobody go.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        loop {
            let mut command = Vec::new();
            for _ in 0..500 {
                // Of the sizes that lines and leases have, each of which has memory of its own.
                for size in [1, 60, 120, 200, 300, 500, 1000] {
                    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
                    command.extend_from_slice(format!("ms filler:{number:060} {size} q\r\n").as_bytes());
                    command.extend(std::iter::repeat_n(b'x', size));
                    command.extend_from_slice(b"\r\n");
                }
            }
            command.extend_from_slice(b"mn\r\n");
            self.ask(&command, "MN\r\n")?;
            let gone: u64 = self.stat("evictions")?.parse().unwrap_or(0);
            if gone >= items {
                return Ok(gone);
            }
        }
    }
}

/// A name without the escapes of a listing.
fn decoded(name: &str) -> String {
    let mut parts = name.split('%');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        plain.push(u8::from_str_radix(code, 16).map_or('?', char::from));
        plain.push_str(rest);
    }
    plain
}

fn read_until(stream: &mut TcpStream, end: &str) -> Result<String> {
    let mut bytes = Vec::new();
    let mut some = [0; 4096];
    while !bytes.ends_with(end.as_bytes()) {
        let read = stream.read(&mut some)?;
        ensure!(read > 0, "the server hung up after {:?}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&some[..read]);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// When a line was logged, in seconds: `ts=7.39385` is 39,385 millionths after the seventh, for it writes no leading
/// zeros.
fn logged_at(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once("ts=")?;
    let (seconds, millionths) = rest.split(' ').next()?.split_once('.')?;
    Some(seconds.parse::<f64>().ok()? + millionths.parse::<f64>().ok()? / 1e6)
}

#[cfg(test)]
mod tests {
    use super::logged_at;

    #[test]
    fn a_logged_time_has_no_leading_zeros() {
        assert_eq!(logged_at("ts=7.39385 gid=2 type=item_get\n"), Some(7.039_385));
        assert_eq!(logged_at("ts=7.939385 gid=2\n"), Some(7.939_385));
        assert_eq!(logged_at("ERROR\r\n"), None);
    }
}
