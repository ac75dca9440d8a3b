//! Which slot of a cluster a key belongs to, and a short name that belongs to a given slot.

use std::sync::LazyLock;

/// How many slots a cluster has.
pub(crate) const SLOTS: u16 = 16_384;

/// The slot of a key: of what stands in its first braces, if anything does.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|&byte| byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// A number whose digits belong to this slot, so that a key with them in braces does.
pub(crate) fn tag_of(slot: u16) -> u32 {
    static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
        let mut tags = vec![None; usize::from(SLOTS)];
        let mut missing = tags.len();
        for number in 0u32.. {
            let tag = &mut tags[usize::from(crc16(number.to_string().as_bytes()) % SLOTS)];
            if tag.is_none() {
                *tag = Some(number);
                missing -= 1;
            }
            if missing == 0 {
                break;
            }
        }
        tags.into_iter().flatten().collect()
    });
    TAGS[usize::from(slot % SLOTS)]
}

/// The checksum that clusters use: polynomial 0x1021, starting at zero.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(
            crc ^ u16::from(byte) << 8,
            |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `CLUSTER KEYSLOT` says.
    #[test]
    fn keys_fall_into_the_slots_that_the_server_says() {
        for (key, slot) in
            [("123456789", 12739), ("foo", 12182), ("{foo}bar", 12182), ("a{}b", 13694), ("{", 4092)]
        {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn every_slot_has_a_tag_of_its_own() {
        for slot in 0..SLOTS {
            assert_eq!(slot_of(format!("mark:{{{}}}", tag_of(slot)).as_bytes()), slot);
        }
    }
}
