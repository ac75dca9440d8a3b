//! One script per verb, each in a file of its own, which says where it needs what all of them know and do.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

/// A script and the name that the server knows it by once it has run.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) code: String,
    pub(crate) sha: String,
}

macro_rules! scripts {
    ($($name:ident = $file:literal;)+) => {$(
        pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
            let code = include_str!($file)
                .replace("-- [head.lua]\n", include_str!("lua/head.lua"))
                .replace("-- [line.lua]\n", include_str!("lua/line.lua"))
                .replace("-- [one.lua]\n", include_str!("lua/one.lua"))
                .replace("-- [order.lua]\n", include_str!("lua/order.lua"));
            #[cfg(test)]
            let code = tests::checked(&code);
            Script { sha: redis::Script::new(&code).get_hash().to_owned(), code }
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
