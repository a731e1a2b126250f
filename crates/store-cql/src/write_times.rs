//! The timestamps of texts and of their deletion, in microseconds.
//!
//! Plain writes of one row are ordered by their timestamps alone, so these are made from the page's own times, which
//! grow with each version, and never from a server's clock. A deletion is just above what it deletes.

use std::time::Duration;

use crate::domain::timestamp::UnixMillis;

/// The least age at which a sweep deletes a text: far longer than a write takes.
pub const SHORTEST_AGE: Duration = Duration::from_mins(10);

/// Whether a text that was inserted at `inserted_at` is too old at `now` for a new head: a sweep may have deleted it.
pub(super) fn is_old(inserted_at: UnixMillis, now: UnixMillis) -> bool {
    let age = now.get().saturating_sub(inserted_at.get()).max(0).cast_unsigned();
    Duration::from_millis(age) > SHORTEST_AGE / 2
}

/// The timestamp of the text of a page that was changed at `updated_at`.
pub(super) fn of_text(updated_at: UnixMillis) -> i64 {
    updated_at.get().saturating_mul(1000)
}

/// The timestamp of the deletion of a text, or of all texts of a page, that was last changed at `updated_at`. No text that it
/// deletes is newer. A text that arrives late, from a clock that was ahead, stays until a sweep.
pub(super) fn above_text(updated_at: UnixMillis) -> i64 {
    of_text(updated_at).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_is_above_every_text_of_the_page_until_then() {
        let (written, changed) = (UnixMillis::new(1_795_235_400_123), UnixMillis::new(1_795_235_400_124));
        assert!(above_text(written) > of_text(written) && above_text(changed) > of_text(written));
        assert!(above_text(changed) < of_text(UnixMillis::new(changed.get() + 1)), "and below every later one");
        assert!(above_text(UnixMillis::new(i64::MAX)) > of_text(UnixMillis::new(i64::MAX)));
    }

    #[test]
    fn a_text_is_written_in_microseconds() {
        assert_eq!(of_text(UnixMillis::new(1_795_235_400_123)), 1_795_235_400_123_000);
    }
}
