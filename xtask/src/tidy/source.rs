use std::ops::Range;

use super::Text;

/// A Rust file beside a copy of it in which comments and the insides of literals are blank.
///
/// Both have the same bytes at the same offsets otherwise, so what is found in one can be looked up in the other.
#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) path: &'a str,
    pub(super) text: &'a str,
    pub(super) code: String,
}

impl<'a> Source<'a> {
    pub(super) fn new(text: &'a Text) -> Self {
        Self { path: &text.path, text: &text.text, code: blank(&text.text) }
    }

    /// The line of an offset, from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        1 + self.text.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count()
    }

    /// Where a text stands in the code, and not within a longer word.
    pub(super) fn find<'s>(&'s self, what: &'s str) -> impl Iterator<Item = usize> + 's {
        let starts_in_word = what.starts_with(is_word);
        self.code
            .match_indices(what)
            .map(|(at, _)| at)
            .filter(move |&at| !starts_in_word || !self.code[..at].ends_with(is_word))
    }

    /// The attributes of the file: from `#` to the closing bracket.
    pub(super) fn attributes(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.code.match_indices('#').filter_map(|(at, _)| {
            let open = at
                + self.code[at..].find('[').filter(|&n| n == 1 || self.code[at + 1..].starts_with("!["))?;
            Some(at..self.closing(open)? + 1)
        })
    }

    /// What an attribute that ends here is about: up to the end of the next statement or block.
    pub(super) fn item_after(&self, attribute: usize) -> Range<usize> {
        let mut depth = 0_usize;
        for (at, byte) in self.code.bytes().enumerate().skip(attribute) {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' => depth = depth.saturating_sub(1),
                b'}' if depth <= 1 => return attribute..at,
                b'}' => depth -= 1,
                b';' if depth == 0 => return attribute..at,
                _ => {}
            }
        }
        attribute..self.code.len()
    }

    /// The bracket that closes the one at this offset.
    pub(super) fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for (at, byte) in self.code.bytes().enumerate().skip(open) {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(at);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Replaces comments and the insides of literals by spaces, byte for byte, and keeps line ends.
fn blank(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after_word = code.ends_with(is_word);
        let (length, keep) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), false)
        } else if rest.starts_with("/*") {
            (block_comment(rest), false)
        } else if let Some(length) = raw_string(rest).filter(|_| !after_word) {
            (length, false)
        } else if first == '"' {
            (quoted(rest, '"'), false)
        } else if first == '\'' && is_char(rest) {
            (quoted(rest, '\''), false)
        } else {
            (first.len_utf8(), true)
        };
        let (piece, next) = rest.split_at(length);
        if keep {
            code.push_str(piece);
        } else {
            code.extend(piece.bytes().map(|b| if b == b'\n' { '\n' } else { ' ' }));
        }
        rest = next;
    }
    code
}

/// The length of the comment that starts here; such comments nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        match &text.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    // An unclosed comment may end within a character; nothing follows it.
    if text.is_char_boundary(at) { at } else { text.len() }
}

/// The length of the raw string that starts here, prefix and all, if one does.
fn raw_string(text: &str) -> Option<usize> {
    let body = ["r", "br", "cr"].iter().find_map(|prefix| text.strip_prefix(prefix))?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    let body = body[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - body.len();
    Some(body.find(&end).map_or(text.len(), |at| start + at + end.len()))
}

/// The length of the literal that starts here and ends at the next such mark without a backslash.
fn quoted(text: &str, mark: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == mark && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// Whether the apostrophe starts a character, not a lifetime.
fn is_char(text: &str) -> bool {
    let mut chars = text.chars().skip(1);
    match chars.next() {
        Some('\\') => true,
        Some(_) => chars.next() == Some('\''),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_left_and_offsets_stay() {
        let text = "a /* x /* y */ é */ b // sleep(\n\"s\\\"leep(\" r#\"raw\"# + br\"x\" 'x' '\\'' 'é' &'a str r#type c";
        let code = blank(text);
        assert_eq!(code.len(), text.len());
        let words: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(words, ["a", "b", "+", "&'a", "str", "r#type", "c"]);
        assert_eq!(code.find('\n'), text.find('\n'));
    }

    #[test]
    fn what_is_never_closed_ends_with_the_file() {
        for text in ["/* é", "\"é", "r#\"é\"", "'\\", "/*/", "'"] {
            assert_eq!(blank(text).len(), text.len(), "{text}");
        }
    }

    #[test]
    fn attributes_and_what_they_are_about() {
        let text = Text {
            path: "x.rs".into(),
            text: "#![a]\n#[b(c[0])] fn f() { g(); }\n#[d] let x = { 1 }; y".into(),
        };
        let source = Source::new(&text);
        let found: Vec<&str> = source.attributes().map(|range| &source.code[range]).collect();
        assert_eq!(found, ["#![a]", "#[b(c[0])]", "#[d]"]);
        let item = source.item_after(source.code.find("fn f").unwrap());
        assert_eq!(&source.code[item], "fn f() { g(); ");
    }
}
