//! How a writer knows its own write: 16 random bytes for each write, of which a row keeps the last eight.

/// 16 random bytes.
pub(super) type WriteId = [u8; 16];

/// How many ids a row keeps.
pub(super) const KEPT: u8 = 8;

/// The ids of the last writes of a row, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WriteIds(Vec<WriteId>);

impl WriteIds {
    /// The ids that [`WriteIds::to_bytes`] wrote. What is no whole id is left out.
    pub(super) fn of_bytes(bytes: &[u8]) -> Self {
        Self(bytes.as_chunks().0.to_vec())
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.0.concat()
    }

    /// These ids after the write with `id`.
    #[must_use]
    pub(super) fn with(&self, id: WriteId) -> Self {
        Self(std::iter::once(id).chain(self.0.iter().copied()).take(KEPT.into()).collect())
    }

    pub(super) fn has(&self, id: &WriteId) -> bool {
        self.0.contains(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_eight_ids_are_kept_the_newest_first() {
        let mut ids = WriteIds::default();
        for number in 1..=9 {
            ids = ids.with([number; 16]);
        }
        assert!(!ids.has(&[1; 16]) && ids.has(&[2; 16]) && ids.has(&[9; 16]));
        assert_eq!((ids.to_bytes().len(), ids.to_bytes()[0]), (128, 9));
        assert_eq!(WriteIds::of_bytes(&ids.to_bytes()), ids);
    }
}
