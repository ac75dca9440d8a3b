//! Lengths of time and tables for people.

use std::time::Duration;

/// A length of time in at most two units: `850ms`, `4.2s`, `2m13s`, `3h12m`, `4d06h`.
pub(crate) fn span(time: Duration) -> String {
    let (secs, ms) = (time.as_secs(), time.subsec_millis());
    match secs {
        0 => format!("{ms}ms"),
        1..10 if ms >= 100 => format!("{secs}.{}s", ms / 100),
        1..60 => format!("{secs}s"),
        60..3600 => format!("{}m{:02}s", secs / 60, secs % 60),
        3600..86400 => format!("{}h{:02}m", secs / 3600, secs / 60 % 60),
        _ => format!("{}d{:02}h", secs / 86400, secs / 3600 % 24),
    }
}

/// A length of time exactly, as it would be typed: `750ms`, `9.25s`, `15s`.
pub(crate) fn exact(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        return format!("{}ms", time.as_millis());
    }
    let text = format!("{}.{:03}", time.as_secs(), time.subsec_millis());
    format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Milliseconds, for scripts.
pub(crate) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A word as a shell would have to be given it.
pub(crate) fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) && !word.starts_with('-') {
        return word.to_owned();
    }
    // What a terminal would act on is left out: a hint must not move a cursor.
    let shown: String = word.chars().filter(|c| !c.is_control()).collect();
    format!("'{}'", shown.replace('\'', "'\\''"))
}

/// Rows with a head, in columns that line up. The last column is not padded.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut row = String::new();
        for (cell, width) in cells.zip(&widths) {
            row.push_str(&format!("{cell:width$}  "));
        }
        text.push_str(row.trim_end());
        text.push('\n');
    };
    line(&mut head.iter().copied());
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_well() {
        let ms = Duration::from_millis;
        for (time, text) in [
            (ms(0), "0ms"),
            (ms(999), "999ms"),
            (ms(1000), "1s"),
            (ms(4250), "4.2s"),
            (ms(12_900), "12s"),
            (ms(133_000), "2m13s"),
            (ms(11_520_000), "3h12m"),
            (ms(367_200_000), "4d06h"),
        ] {
            assert_eq!(span(time), text);
        }
        assert_eq!(exact(ms(9250)), "9.25s");
        assert_eq!(exact(ms(750)), "750ms");
        assert_eq!(exact(ms(10_000)), "10s");
        assert_eq!(exact(ms(100_000)), "100s");
    }

    #[test]
    fn words_survive_a_shell() {
        for (word, shown) in
            [("a/b:c", "a/b:c"), ("a b", "'a b'"), ("it's", "'it'\\''s'"), ("-n", "'-n'"), ("$x", "'$x'")]
        {
            assert_eq!(shell_word(word), shown);
        }
        assert_eq!(shell_word("a\u{1b}[2J"), "'a[2J'");
    }

    #[test]
    fn columns_line_up_and_do_not_trail() {
        let rows = vec![vec!["a".to_owned(), "bé".to_owned()], vec!["long".to_owned(), String::new()]];
        assert_eq!(table(&["K", "V"], &rows), "K     V\na     bé\nlong\n");
    }
}
