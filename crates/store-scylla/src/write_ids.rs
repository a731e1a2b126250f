//! How a writer recognises its own write: by 16 random bytes. A row keeps the ids of its last eight writes and its
//! first.

pub(super) type WriteId = [u8; 16];

/// Ids of the last writes that a row keeps.
pub(super) const KEPT: u8 = 8;

/// Newest first, then the first write's, which decides whether a create was done however many writes followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WriteIds(Vec<WriteId>);

impl WriteIds {
    pub(super) fn of_bytes(bytes: &[u8]) -> Self {
        Self(bytes.as_chunks().0.to_vec())
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.0.concat()
    }

    #[must_use]
    pub(super) fn with(&self, id: WriteId) -> Self {
        let mut ids = vec![id];
        ids.extend(&self.0);
        if ids.len() > usize::from(KEPT) + 1 {
            ids.remove(KEPT.into());
        }
        Self(ids)
    }

    pub(super) fn has(&self, id: &WriteId) -> bool {
        self.0.contains(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_of_the_last_eight_writes_and_of_the_first_are_kept() {
        let ids = (1..=12).fold(WriteIds::default(), |ids, number| ids.with([number; 16]));
        let kept: Vec<_> = ids.0.iter().map(|id| id[0]).collect();
        assert_eq!(kept, [12, 11, 10, 9, 8, 7, 6, 5, 1]);
        assert_eq!(WriteIds::of_bytes(&ids.to_bytes()), ids);
    }
}
