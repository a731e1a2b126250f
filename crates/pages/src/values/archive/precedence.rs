//! Which of two records of one slug stays: the stored or the imported one.

use super::Entry;
use crate::values::page::PageState;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    Absent,
    Active(PageState),
    Hidden(PageState),
    Deleted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precedence {
    Import,
    Same,
    NewerStays,
    StaysDeleted,
    StaysHidden,
}

/// A tombstone is final (contract, decision 18). The higher version wins, then the later time: a restored store repeats
/// versions. At the same version and time a tombstone wins. No import shows a hidden page.
pub fn precedence(stored: Stored, imported: &Entry) -> Precedence {
    let state = match (stored, imported) {
        (Stored::Absent, _) => return Precedence::Import,
        (Stored::Deleted, Entry::Tombstone(_)) => return Precedence::Same,
        (Stored::Deleted, Entry::Page(..)) => return Precedence::StaysDeleted,
        (Stored::Hidden(_), Entry::Page(head, _)) if head.hidden.is_none() => return Precedence::StaysHidden,
        (Stored::Active(state) | Stored::Hidden(state), _) => state,
    };
    let key = |state: PageState| (state.version, state.updated_at);
    let (found, given) = match imported {
        Entry::Page(head, _) => (key(state), key(head.state())),
        Entry::Tombstone(tombstone) => (key(state), (tombstone.version, tombstone.deleted_at)),
    };
    match given.cmp(&found) {
        std::cmp::Ordering::Greater => Precedence::Import,
        std::cmp::Ordering::Less => Precedence::NewerStays,
        std::cmp::Ordering::Equal => match imported {
            Entry::Page(..) => Precedence::Same,
            Entry::Tombstone(_) => Precedence::Import,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::content::Content;
    use crate::values::edit_key::EditKey;
    use crate::values::page::{PageHead, PageVersion, Tombstone};
    use crate::values::slug::Slug;
    use crate::values::timestamp::UnixMillis;
    use crate::values::title::Title;

    fn state(version: u64, updated_at: i64) -> PageState {
        PageState { version: PageVersion::new(version), updated_at: UnixMillis::new(updated_at) }
    }

    fn page(version: u64, updated_at: i64) -> Entry {
        let (slug, title) = (Slug::parse("a-22222222").unwrap(), Title::parse("a").unwrap());
        let head = PageHead::first(slug, title, EditKey::random(|_| 0).hash(), UnixMillis::new(0));
        let PageState { version, updated_at } = state(version, updated_at);
        Entry::Page(PageHead { version, updated_at, ..head }, Content::parse("x".to_owned()).unwrap())
    }

    fn tombstone(version: u64, deleted_at: i64) -> Entry {
        Entry::Tombstone(Tombstone {
            slug: Slug::parse("a-22222222").unwrap(),
            version: PageVersion::new(version),
            created_at: UnixMillis::new(0),
            deleted_at: UnixMillis::new(deleted_at),
            takedown: None,
        })
    }

    #[test]
    fn a_tombstone_is_never_revived() {
        assert_eq!(precedence(Stored::Deleted, &page(u64::MAX, i64::MAX)), Precedence::StaysDeleted);
        assert_eq!(precedence(Stored::Deleted, &tombstone(9, 9)), Precedence::Same);
    }

    #[test]
    fn a_free_slug_takes_anything() {
        assert_eq!(precedence(Stored::Absent, &page(1, 0)), Precedence::Import);
        assert_eq!(precedence(Stored::Absent, &tombstone(2, 0)), Precedence::Import);
    }

    #[test]
    fn the_version_decides_and_then_the_time() {
        let stored = Stored::Active(state(3, 30));
        for (imported, expected) in [
            (page(2, 99), Precedence::NewerStays),
            (page(3, 29), Precedence::NewerStays),
            (page(3, 30), Precedence::Same),
            (page(3, 31), Precedence::Import),
            (page(4, 0), Precedence::Import),
            (tombstone(4, 0), Precedence::Import),
            (tombstone(3, 30), Precedence::Import),
            (tombstone(3, 29), Precedence::NewerStays),
            (tombstone(2, 99), Precedence::NewerStays),
        ] {
            assert_eq!(precedence(stored, &imported), expected, "{imported:?}");
        }
    }
}
