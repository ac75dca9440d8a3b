use std::time::Duration;

use tenure_core::{Error, Result};

/// Reads a length of time: `5` and `0.5` are seconds, as for `flock` and `sleep`; else a number and `ms`, `s`,
/// `m`, `h` or `d`.
///
/// # Errors
/// `Invalid` for anything else, negative and endless times included.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use tenure::parse_duration;
///
/// assert_eq!(parse_duration("0.5")?, Duration::from_millis(500));
/// assert_eq!(parse_duration("90s")?, parse_duration("1.5m")?);
/// assert!(parse_duration("soon").is_err());
/// # Ok::<(), tenure::Error>(())
/// ```
pub fn parse_duration(text: &str) -> Result<Duration> {
    let wrong = || {
        Error::invalid(format!(
            "`{}` is no length of time; write 5, 0.5, 250ms, 90s, 2m, 1h",
            text.escape_debug()
        ))
    };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err(wrong()),
    };
    // The parser of floats takes `inf`, `nan`, `1e9` and signs, which nobody means here.
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(wrong());
    }
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_forms_are_read_and_others_refused() {
        for (text, ms) in [
            ("5", 5000),
            ("0.5", 500),
            ("250ms", 250),
            ("90s", 90_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("0", 0),
        ] {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_millis(ms), "{text}");
        }
        for text in
            ["", "s", "-1", "+1", "1e3", "inf", "nan", "5 s", "5x", "1.2.3", "9".repeat(400).as_str(), "٣"]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
