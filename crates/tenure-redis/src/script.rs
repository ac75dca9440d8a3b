//! One script per verb, each in a file of its own, which says where it needs what all of them know and do.

#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::LazyLock};

/// A script and the name that the server knows it by once it has run.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) code: String,
    pub(crate) sha: String,
}

impl Script {
    fn new(verb: &str) -> Self {
        let code = verb
            .replace("-- [head.lua]\n", include_str!("lua/head.lua"))
            .replace("-- [line.lua]\n", include_str!("lua/line.lua"))
            .replace("-- [one.lua]\n", include_str!("lua/one.lua"))
            .replace("-- [order.lua]\n", include_str!("lua/order.lua"));
        #[cfg(test)]
        let code = tests::checked(&code);
        let code = with_numbers(&code);
        Self { sha: redis::Script::new(&code).get_hash().to_owned(), code }
    }
}

/// The code with each name of a number, which is in capitals, replaced by the number. A server builds all functions of a
/// script anew for every call, and would hand every name that a function uses to it, one by one.
fn with_numbers(code: &str) -> String {
    let mut numbers = HashMap::new();
    let lines = code.lines().filter(|line| {
        let Some(named) = numbers_of(line) else { return true };
        numbers.extend(named);
        false
    });
    let lines: Vec<&str> = lines.collect();
    let mut numbered = String::with_capacity(code.len());
    for line in lines {
        let mut rest = line;
        while !rest.is_empty() {
            let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let word = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
            let other = rest[word..].find(is_part).map_or(rest.len(), |at| word + at);
            numbered.push_str(numbers.get(&rest[..word]).copied().unwrap_or(&rest[..word]));
            numbered.push_str(&rest[word..other]);
            rest = &rest[other..];
        }
        numbered.push('\n');
    }
    numbered
}

/// The names and numbers of a line that gives names to numbers and does nothing else.
fn numbers_of(line: &str) -> Option<Vec<(&str, &str)>> {
    let line = line.split(" --").next()?;
    let (names, numbers) = line.strip_prefix("local ")?.split_once(" = ")?;
    let all = |list: &str, fine: fn(&u8) -> bool| list.split(", ").all(|word| word.bytes().all(|b| fine(&b)));
    let fine = all(names, u8::is_ascii_uppercase) && all(numbers, u8::is_ascii_digit);
    fine.then(|| names.split(", ").zip(numbers.split(", ")).collect())
}

macro_rules! scripts {
    ($($name:ident = $file:literal;)+) => {$(
        pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!($file)));
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
