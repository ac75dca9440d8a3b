use std::{fmt, str::FromStr};

use crate::{ClaimId, Error, Fence, Mode, Op, Result, Seq};

/// What a holder shows to the resource that its lock protects: the fence, the claim that holds, and whether it may
/// write.
///
/// It is made by the guard, is small and can be copied, and travels to another process as text.
///
/// # Examples
/// ```
/// use tenure_core::{ClaimId, Fence, Mode, Seq, Stamp};
///
/// let fence = Fence::new(Seq::new(41).unwrap(), 0);
/// let stamp = Stamp::new(fence, ClaimId::from_bytes([7; 16]), Mode::Exclusive)?;
/// assert_eq!(stamp.to_string(), "41984:07070707070707070707070707070707:exclusive");
/// assert_eq!(stamp.to_string().parse::<Stamp>()?, stamp);
/// # Ok::<(), tenure_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    fence: Fence,
    claim: ClaimId,
    shared: bool,
}

impl Stamp {
    /// Takes the parts of a stamp.
    ///
    /// # Errors
    /// `Unsupported` for permits: several hold rightfully at once under different fences, so no resource can tell
    /// who was overtaken. `Invalid` for a fence below every one that an engine gives.
    pub fn new(fence: Fence, claim: ClaimId, mode: Mode) -> Result<Self> {
        let shared = match mode {
            Mode::Exclusive => false,
            Mode::Shared => true,
            Mode::Permits(_) => {
                let message = "a semaphore's fence tells the order of grants, but no resource can check it; \
                               use a mutex for what must be fenced";
                return Err(Error::unsupported(Op::Claim, message));
            }
        };
        if fence.seq() == Seq::ZERO {
            return Err(Error::invalid(format!("{fence} is below every fence that an engine gives")));
        }
        Ok(Self { fence, claim, shared })
    }

    /// The number that grows with every grant.
    #[must_use]
    pub const fn fence(&self) -> Fence {
        self.fence
    }

    /// The claim that holds.
    #[must_use]
    pub const fn claim_id(&self) -> ClaimId {
        self.claim
    }

    /// How it holds: `Exclusive` or `Shared`.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        if self.shared { Mode::Shared } else { Mode::Exclusive }
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.fence, self.claim, self.mode())
    }
}

impl FromStr for Stamp {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let parts = || {
            let mut parts = text.splitn(3, ':');
            let fence = parts.next()?.parse().ok()?;
            let claim = parts.next()?.parse().ok()?;
            let mode = match parts.next()? {
                "exclusive" => Mode::Exclusive,
                "shared" => Mode::Shared,
                _ => return None,
            };
            Some((fence, claim, mode))
        };
        let wrong =
            || Error::invalid("this is no stamp; one looks like `41984:<32 hexadecimal digits>:exclusive`");
        let (fence, claim, mode) = parts().ok_or_else(wrong)?;
        let stamp = Self::new(fence, claim, mode)?;
        // One stamp has one text, so that texts can be compared.
        if stamp.to_string() == text { Ok(stamp) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, Permits};

    const ID: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_stamp_has_one_text() {
        for mode in ["exclusive", "shared"] {
            let text = format!("{}:{ID}:{mode}", i64::MAX);
            assert_eq!(text.parse::<Stamp>().unwrap().to_string(), text);
        }
        for text in [
            String::new(),
            "41984".into(),
            format!("41984:{ID}"),
            format!("41984:{ID}:permits"),
            format!("41984:{ID}:exclusive "),
            format!("41984:{ID}:exclusive:"),
            format!("+41984:{ID}:exclusive"),
            format!("041984:{ID}:exclusive"),
            format!("41984:{}:exclusive", ID.to_uppercase()),
            format!("9223372036854775808:{ID}:exclusive"),
            format!("1023:{ID}:exclusive"),
            format!("0:{ID}:shared"),
        ] {
            assert_eq!(text.parse::<Stamp>().map_err(|err| err.kind()), Err(ErrorKind::Invalid), "{text}");
        }
    }

    #[test]
    fn permits_have_no_stamp() {
        let permits = Mode::Permits(Permits::new(1, 3).unwrap());
        let fence = Fence::new(Seq::MAX, 0);
        let err = Stamp::new(fence, ClaimId::from_bytes([0; 16]), permits).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Unsupported);
    }
}
