use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use crate::{Failure, Result, ensure};

/// How long a connection, a write and each read may take.
const LIMIT: Duration = Duration::from_secs(10);

/// An operator: asks a server over its JSON gateway, and so with none of the code that is tested.
#[derive(Clone, Debug)]
pub struct Admin {
    addr: SocketAddr,
    token: Option<String>,
}

impl Admin {
    pub(super) fn new(addr: SocketAddr) -> Self {
        Self { addr, token: None }
    }

    /// The same, as this user.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn login(&self, name: &str, password: &str) -> Result<Self> {
        let body = format!(r#"{{"name":"{name}","password":"{password}"}}"#);
        let answer = self.call("auth/authenticate", &body)?;
        Ok(Self { token: Some(field(&answer, "token")?), ..self.clone() })
    }

    /// Calls a method of the gateway, and gives its answer as JSON.
    ///
    /// # Errors
    /// If the server does not answer, or answers with an error.
    pub fn call(&self, method: &str, body: &str) -> Result<String> {
        let token =
            self.token.as_ref().map(|token| format!("Authorization: {token}\r\n")).unwrap_or_default();
        let length = body.len();
        let request = format!(
            "POST /v3/{method} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{token}Content-Length: {length}\r\n\r\n{body}"
        );
        self.ask(&request)
    }

    /// Whether the server says that it is well: that there is a leader it hears of.
    ///
    /// # Errors
    /// If it does not.
    pub fn health(&self) -> Result {
        let answer = self.ask("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        ensure!(answer.contains(r#""health":"true""#), "it says {answer}");
        Ok(())
    }

    fn ask(&self, request: &str) -> Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.addr, LIMIT)?;
        stream.set_write_timeout(Some(LIMIT))?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        ensure!(head.starts_with("HTTP/1.1 200"), "it answered {answer}");
        // Answers that matter here are short, and come in one piece.
        Ok(body.to_owned())
    }

    /// Writes a key.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn put(&self, key: &str, value: &str) -> Result<i64> {
        let body =
            format!(r#"{{"key":"{}","value":"{}"}}"#, base64(key.as_bytes()), base64(value.as_bytes()));
        number(&self.call("kv/put", &body)?, "revision")
    }

    /// Deletes all keys that start so, and says how many there were.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn delete(&self, prefix: &str) -> Result<i64> {
        let body = range(prefix);
        Ok(number(&self.call("kv/deleterange", &body)?, "deleted").unwrap_or(0))
    }

    /// How many keys start so.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn count(&self, prefix: &str) -> Result<i64> {
        Ok(number(&self.call("kv/range", &range(prefix))?, "count").unwrap_or(0))
    }

    /// The leases there are.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn leases(&self) -> Result<Vec<String>> {
        let answer = self.call("lease/leases", "{}")?;
        let ids = answer.split(r#""ID":""#).skip(1);
        Ok(ids.filter_map(|rest| rest.split('"').next().map(str::to_owned)).collect())
    }

    /// The lease that keeps the first of the keys that start so.
    ///
    /// # Errors
    /// If there is none.
    pub fn lease_of(&self, prefix: &str) -> Result<String> {
        field(&self.call("kv/range", &range(prefix))?, "lease")
    }

    /// How long a lease lives, in seconds, rounded down.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn seconds_left(&self, lease: &str) -> Result<i64> {
        let answer = self.call("lease/timetolive", &format!(r#"{{"ID":"{lease}"}}"#))?;
        Ok(number(&answer, "TTL").unwrap_or(0))
    }

    /// Ends a lease, with all keys that it keeps.
    ///
    /// # Errors
    /// If there is no such lease.
    pub fn revoke(&self, lease: &str) -> Result {
        self.call("lease/revoke", &format!(r#"{{"ID":"{lease}"}}"#)).map(drop)
    }

    /// Makes the server forget all history before now.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn compact(&self) -> Result {
        let revision = self.put("testkit/compact", "")?;
        self.call("kv/compaction", &format!(r#"{{"revision":"{revision}","physical":true}}"#)).map(drop)
    }

    /// Switches authentication on. The user `root` may do everything, with this password.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn secure(&self, password: &str) -> Result {
        self.call("auth/user/add", &format!(r#"{{"name":"root","password":"{password}"}}"#))?;
        self.call("auth/role/add", r#"{"name":"root"}"#)?;
        self.call("auth/user/grant", r#"{"user":"root","role":"root"}"#)?;
        self.call("auth/enable", "{}").map(drop)
    }

    /// Adds a user who may read and write the keys that start so; to be called by who may do everything.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn add_user(&self, name: &str, password: &str, prefix: &str) -> Result {
        self.call("auth/user/add", &format!(r#"{{"name":"{name}","password":"{password}"}}"#))?;
        self.call("auth/role/add", &format!(r#"{{"name":"{name}"}}"#))?;
        let (key, end) = ends(prefix);
        let right = format!(r#""permType":"READWRITE","key":"{key}","range_end":"{end}""#);
        self.call("auth/role/grant", &format!(r#"{{"name":"{name}","perm":{{{right}}}}}"#))?;
        self.call("auth/user/grant", &format!(r#"{{"user":"{name}","role":"{name}"}}"#)).map(drop)
    }

    /// Whether this server leads.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn leads(&self) -> Result<bool> {
        let status = self.call("maintenance/status", "{}")?;
        Ok(field(&status, "leader")? == field(&status, "member_id")?)
    }
}

fn range(prefix: &str) -> String {
    let (key, end) = ends(prefix);
    format!(r#"{{"key":"{key}","range_end":"{end}"}}"#)
}

/// The first key that starts so, and the first after all of them.
fn ends(prefix: &str) -> (String, String) {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    (base64(prefix.as_bytes()), base64(&end))
}

/// The text of a field, wherever it stands.
fn field(json: &str, name: &str) -> Result<String> {
    let text = json.split_once(&format!(r#""{name}":""#)).and_then(|(_, rest)| rest.split_once('"'));
    text.map(|(text, _)| text.to_owned())
        .ok_or_else(|| Failure::of_the_trial(format!("no `{name}` in {json}")))
}

fn number(json: &str, name: &str) -> Result<i64> {
    field(json, name)?.parse().map_err(|_| Failure::of_the_trial(format!("`{name}` is no number in {json}")))
}

/// As the gateway wants keys and values.
#[must_use]
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let three = [chunk[0], *chunk.get(1).unwrap_or(&0), *chunk.get(2).unwrap_or(&0)];
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= chunk.len() { digit as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_as_everybody_writes_it() {
        for (plain, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob\u{ff}", "Zm9vYsO/")]
        {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn fields_are_found() {
        let json = r#"{"header":{"member_id":"12"},"leader":"7","deleted":"3"}"#;
        assert_eq!(field(json, "member_id").unwrap(), "12");
        assert_eq!(number(json, "deleted").unwrap(), 3);
        assert!(number(json, "revision").is_err());
    }
}
