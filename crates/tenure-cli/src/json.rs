//! The little JSON that is written here, by hand. Numbers that may pass 2^53 are strings: most readers would
//! round them.

/// An object under construction, its fields in the order in which they were added.
#[derive(Debug)]
pub(crate) struct Object(String);

impl Object {
    pub(crate) fn new() -> Self {
        Self("{".to_owned())
    }

    pub(crate) fn text(self, name: &str, value: &str) -> Self {
        self.raw(name, &quote(value))
    }

    pub(crate) fn maybe_text(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(name, value),
            None => self.raw(name, "null"),
        }
    }

    pub(crate) fn number(self, name: &str, value: impl Into<i128>) -> Self {
        self.raw(name, &value.into().to_string())
    }

    pub(crate) fn maybe_number(self, name: &str, value: Option<impl Into<i128>>) -> Self {
        match value {
            Some(value) => self.number(name, value),
            None => self.raw(name, "null"),
        }
    }

    pub(crate) fn flag(self, name: &str, value: bool) -> Self {
        self.raw(name, if value { "true" } else { "false" })
    }

    pub(crate) fn object(self, name: &str, value: Self) -> Self {
        self.raw(name, &value.done())
    }

    pub(crate) fn list(self, name: &str, values: impl IntoIterator<Item = Self>) -> Self {
        let values: Vec<String> = values.into_iter().map(Self::done).collect();
        self.raw(name, &format!("[{}]", values.join(",")))
    }

    pub(crate) fn done(mut self) -> String {
        self.0.push('}');
        self.0
    }

    fn raw(mut self, name: &str, value: &str) -> Self {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(&quote(name));
        self.0.push(':');
        self.0.push_str(value);
        self
    }
}

fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            // Controls, and what some readers take for the end of a line.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_numbers_are_whole() {
        let inner = Object::new().flag("yes", true);
        let object = Object::new()
            .text("k\"", "a\\b\n\u{1}\u{7f}é\u{2028}")
            .number("n", u64::MAX)
            .maybe_number("none", None::<u64>)
            .object("o", inner)
            .list("l", [Object::new()]);
        assert_eq!(
            object.done(),
            r#"{"k\"":"a\\b\n\u0001\u007fé\u2028","n":18446744073709551615,"none":null,"o":{"yes":true},"l":[{}]}"#
        );
    }
}
