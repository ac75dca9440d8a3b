//! One script per verb. Each is preceded by what all of them do with a line.

use std::sync::LazyLock;

/// A script and the name that the server knows it by once it has run.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) code: &'static str,
    pub(crate) sha: String,
}

macro_rules! scripts {
    ($($name:ident = $file:literal;)+) => {$(
        pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
            let code = concat!(include_str!("lua/line.lua"), "\n", include_str!($file));
            Script { code, sha: redis::Script::new(code).get_hash().to_owned() }
        });
    )+};
}

scripts! {
    ATTEMPT = "lua/attempt.lua";
    RENEW = "lua/renew.lua";
    DOWNGRADE = "lua/downgrade.lua";
    RELEASE = "lua/release.lua";
    EVICT = "lua/evict.lua";
    SHOW = "lua/show.lua";
}
