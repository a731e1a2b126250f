//! The parts of the ring of tokens, for work that reads the whole table one part after another.

/// The ring is read in this many parts.
pub(super) const PARTS: u8 = 128;

/// The tokens of part `part`: above the first number, up to the second.
pub(super) fn range(part: u8) -> (i64, i64) {
    let bound = |part: u8| i64::MIN.saturating_add_unsigned((u64::MAX / u64::from(PARTS)).saturating_mul(part.into()));
    let until = if part + 1 == PARTS { i64::MAX } else { bound(part + 1) };
    (bound(part), until)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_whole_ring() {
        assert_eq!(range(0).0, i64::MIN);
        assert_eq!(range(PARTS - 1).1, i64::MAX);
        for part in 1..PARTS {
            assert_eq!(range(part).0, range(part - 1).1);
            assert!(range(part).0 < range(part).1);
        }
    }
}
