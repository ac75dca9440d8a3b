use std::sync::LazyLock;

use redis::{FromRedisValue, RedisError, Script, ToRedisArgs, aio::ConnectionLike};
use tenure_core::{Error, ErrorKind, Op, Record, Refusal, Result, Stamp};

use super::Written;

/// The text of a record that nobody has claimed, and the pattern of every one.
const HEAD: &str = "local NOBODY = string.rep('0', 19) .. ' ' .. string.rep('0', 32) .. ' 0 ' .. string.rep('0', 19)\n\
                    local PATTERN = '^(%d+) (%x+) (%d+) (%d+)$'\n";

static CLAIM: LazyLock<Script> =
    LazyLock::new(|| Script::new(&format!("{HEAD}{}", include_str!("redis/claim.lua"))));
static READ: LazyLock<Script> = LazyLock::new(|| {
    Script::new(&format!(
        "{HEAD}return {{ redis.call('GET', KEYS[1]) or NOBODY, redis.call('GET', KEYS[2]) }}"
    ))
});
static WRITE: LazyLock<Script> = LazyLock::new(|| with_effect("redis.call('SET', KEYS[1], ARGV[1])"));

/// A key of a Redis server that only those may change who have not been overtaken.
///
/// The record is a key of its own beside it, in the same slot of a cluster. The connection is the program's own: any
/// that is a [`ConnectionLike`]. Each call is one script, and so one step.
///
/// What Redis forgets, the record forgets too: give both the same persistence, and no expiry. Where a failover can
/// lose acknowledged writes, a claim can be lost as well.
///
/// # Examples
/// ```no_run
/// # async fn doc(guard: tenure::Guard) -> Result<(), Box<dyn std::error::Error>> {
/// use tenure::fence::{Redis, Written};
///
/// let client = redis::Client::open("redis://localhost")?;
/// let mut connection = client.get_multiplexed_async_connection().await?;
/// let (stock, stamp) = (Redis::new("stock:4711")?, guard.stamp());
/// let n = stock.claim(&mut connection, stamp).await?; // before the first read
/// let left: u64 = stock.read(&mut connection, stamp).await?;
/// assert_eq!(stock.write(&mut connection, stamp, n + 1, left - 1).await?, Written::Now);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Redis {
    key: String,
    record: String,
}

impl Redis {
    /// The key of this name, with its record beside it: `{key}:fence`, or `key:fence` if the key has a hash tag of its
    /// own.
    ///
    /// # Errors
    /// `Invalid` for a key with a `}` that ends no hash tag, since no name beside it is in the same slot. Name the record
    /// by [`with_record`](Self::with_record) then.
    pub fn new(key: impl Into<String>) -> Result<Self> {
        let key = key.into();
        let tagged = key
            .split_once('{')
            .and_then(|(_, rest)| rest.split_once('}'))
            .is_some_and(|(tag, _)| !tag.is_empty());
        if !tagged && key.contains('}') {
            let message =
                "a `}` in this key ends no hash tag, so its record cannot be named after it; name the record";
            return Err(Error::invalid(message));
        }
        let record = if tagged { format!("{key}:fence") } else { format!("{{{key}}}:fence") };
        Ok(Self { key, record })
    }

    /// The key and the record of these names. In a cluster both must be in one slot.
    pub fn with_record(key: impl Into<String>, record: impl Into<String>) -> Self {
        Self { key: key.into(), record: record.into() }
    }

    /// Shuts out every earlier holder, and says the number of this holder's last write: 0 if it has not written.
    ///
    /// # Errors
    /// `Refused` if a later holder was here. `Unavailable` if Redis does not answer: its own error is the source.
    /// # Cancel safety
    /// The claim may have been done. Claim again.
    pub async fn claim<C: ConnectionLike>(&self, on: &mut C, stamp: Stamp) -> Result<u64> {
        let fence = format!("{:019}", stamp.fence().get());
        let shared = i32::from(stamp.mode() == tenure_core::Mode::Shared);
        let mut call = CLAIM.key(&self.record);
        call.arg(fence).arg(stamp.claim_id().to_string()).arg(shared);
        let (done, kept): (bool, String) =
            call.invoke_async(on).await.map_err(|err| failed(Op::Claim, err))?;
        match kept.parse::<Record>()?.claim(&stamp) {
            Ok(record) if done => Ok(record.n()),
            Err(refusal) if !done => Err(refusal.into_error(Op::Claim)),
            _ => Err(disagreed(Op::Claim)),
        }
    }

    /// The value of the key, as a type that has room for `nil` if it may be missing.
    ///
    /// # Errors
    /// `Refused` if a later holder was here, or this one has not claimed; `Unavailable` as [`claim`](Self::claim).
    pub async fn read<C: ConnectionLike, T: FromRedisValue>(&self, on: &mut C, stamp: Stamp) -> Result<T> {
        let mut call = READ.key(&self.record);
        let answer = call.key(&self.key).invoke_async(on).await;
        let (kept, value): (String, redis::Value) = answer.map_err(|err| failed(Op::Read, err))?;
        kept.parse::<Record>()?.read(&stamp).map_err(|refusal| refusal.into_error(Op::Read))?;
        T::from_redis_value(value).map_err(|err| {
            Error::new(ErrorKind::Invalid, Op::Read, "the key has a value of another type").with_source(err)
        })
    }

    /// Sets the key to this value, as the `n`th write of this holder.
    ///
    /// # Errors
    /// `Refused` if a later holder was here, this one has not claimed, or this is not its next write; `Invalid` for a
    /// shared hold; `Unavailable` as [`claim`](Self::claim), and then it may have been done: write the same again, under
    /// the same number.
    /// # Cancel safety
    /// The write may have been done. Write the same again, under the same number.
    pub async fn write<C: ConnectionLike>(
        &self,
        on: &mut C,
        stamp: Stamp,
        n: u64,
        value: impl ToRedisArgs,
    ) -> Result<Written> {
        self.apply(on, stamp, n, &WRITE, &[&self.key], value).await
    }

    /// Does what this Lua says, as the `n`th write of this holder: for several keys, hashes, lists and what else Redis
    /// has. It sees the given keys and arguments as its `KEYS` and `ARGV`, and all of its keys are in the slot of the
    /// record.
    ///
    /// If it fails half-way, Redis keeps what it did until then, and the write does not count.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    /// # Cancel safety
    /// As [`write`](Self::write).
    ///
    /// # Examples
    /// ```no_run
    /// # async fn doc(guard: tenure::Guard, mut on: redis::aio::MultiplexedConnection) -> tenure::Result<()> {
    /// # let cart = tenure::fence::Redis::new("cart:9")?;
    /// # let n = cart.claim(&mut on, guard.stamp()).await?;
    /// let add = "redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2])";
    /// let _ = cart.write_with(&mut on, guard.stamp(), n + 1, add, &["cart:9"], &["apples", "3"]).await?;
    /// # Ok(()) }
    /// ```
    pub async fn write_with<C: ConnectionLike>(
        &self,
        on: &mut C,
        stamp: Stamp,
        n: u64,
        lua: &str,
        keys: &[&str],
        args: impl ToRedisArgs,
    ) -> Result<Written> {
        self.apply(on, stamp, n, &with_effect(lua), keys, args).await
    }

    /// What the key has seen, for people.
    ///
    /// # Errors
    /// `Unavailable` as [`claim`](Self::claim).
    pub async fn record<C: ConnectionLike>(&self, on: &mut C) -> Result<Record> {
        let kept: Option<String> =
            redis::cmd("GET").arg(&self.record).query_async(on).await.map_err(|err| failed(Op::Read, err))?;
        kept.map_or(Ok(Record::default()), |kept| kept.parse())
    }

    async fn apply<C: ConnectionLike>(
        &self,
        on: &mut C,
        stamp: Stamp,
        n: u64,
        script: &Script,
        keys: &[impl ToRedisArgs],
        args: impl ToRedisArgs,
    ) -> Result<Written> {
        let refused = |refusal: Refusal| refusal.into_error(Op::Write);
        // What the record must be for this to be the next write. Where it cannot be one, no record is like this.
        let before = n.checked_sub(1).and_then(|before| {
            Record::from_parts(stamp.fence(), stamp.claim_id(), before, stamp.fence()).ok()
        });
        let next = match before {
            Some(before) => before.write(&stamp, n).map_err(refused)?,
            None => None,
        };
        let text = |record: Option<Record>| record.map(|record| record.to_string()).unwrap_or_default();
        let mut call = script.key(&self.record);
        for key in keys {
            call.key(key);
        }
        call.arg(text(before)).arg(text(next)).arg(args);
        let (done, kept): (bool, String) =
            call.invoke_async(on).await.map_err(|err| failed(Op::Write, err))?;
        match kept.parse::<Record>()?.write(&stamp, n) {
            Ok(Some(_)) if done => Ok(Written::Now),
            Ok(None) if !done => Ok(Written::Before),
            Err(refusal) if !done => Err(refused(refusal)),
            _ => Err(disagreed(Op::Write)),
        }
    }
}

fn with_effect(lua: &str) -> Script {
    Script::new(&format!("{HEAD}{}", include_str!("redis/write.lua").replace("-- [effect]", lua)))
}

fn failed(op: Op, err: RedisError) -> Error {
    Error::unavailable(op, "Redis did not do it").with_source(err)
}

/// The script and the rule are two texts of one thing.
fn disagreed(op: Op) -> Error {
    Error::new(ErrorKind::Broken, op, "the script and the rule disagree about a record")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_lies_in_the_slot_of_its_key() {
        let record = |key: &str| Redis::new(key).map(|redis| redis.record).map_err(|err| err.kind());
        assert_eq!(record("stock:1").as_deref(), Ok("{stock:1}:fence"));
        assert_eq!(record("a{b}c").as_deref(), Ok("a{b}c:fence"));
        assert_eq!(record("a{b").as_deref(), Ok("{a{b}:fence"));
        for key in ["a}b", "{}", "}{", "{}a{b}"] {
            assert_eq!(record(key), Err(ErrorKind::Invalid), "{key}");
        }
    }

    #[test]
    fn the_script_knows_what_nobody_wrote() {
        assert!(Record::default().to_string().starts_with(&"0".repeat(19)));
        assert_eq!(Record::default().to_string(), format!("{0} {1} 0 {0}", "0".repeat(19), "0".repeat(32)));
    }
}
