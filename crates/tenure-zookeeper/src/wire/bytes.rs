/// Writes the fields of a message.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// Leaves room for the length.
    pub(crate) fn message() -> Self {
        Self(vec![0; 4])
    }

    /// The message with its length in front.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let length = length(self.0.len() - 4);
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0
    }

    #[cfg(test)]
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn int(&mut self, number: i32) {
        self.0.extend(number.to_be_bytes());
    }

    pub(crate) fn long(&mut self, number: i64) {
        self.0.extend(number.to_be_bytes());
    }

    pub(crate) fn flag(&mut self, flag: bool) {
        self.0.push(u8::from(flag));
    }

    pub(crate) fn buffer(&mut self, bytes: &[u8]) {
        self.int(length(bytes.len()));
        self.0.extend(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.buffer(text.as_bytes());
    }
}

/// Nothing that is sent comes near two gigabytes: keys, notes and passwords are bounded.
fn length(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

/// Reads the fields of a message; `None` where it ends too early.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn skip(&mut self, count: usize) -> Option<()> {
        self.take(count).map(drop)
    }

    pub(crate) fn int(&mut self) -> Option<i32> {
        self.take(4)?.try_into().ok().map(i32::from_be_bytes)
    }

    pub(crate) fn long(&mut self) -> Option<i64> {
        self.take(8)?.try_into().ok().map(i64::from_be_bytes)
    }

    pub(crate) fn flag(&mut self) -> Option<bool> {
        self.take(1).map(|byte| byte[0] != 0)
    }

    /// A length below zero stands for nothing.
    pub(crate) fn buffer(&mut self) -> Option<&'a [u8]> {
        let length = self.int()?;
        self.take(usize::try_from(length).unwrap_or(0))
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.buffer()?.to_vec()).ok()
    }
}
