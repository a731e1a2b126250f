//! The timestamps of texts and of their deletion, in microseconds.
//!
//! Plain writes of one row are ordered by their timestamps alone, so these are made from the page's own times, which
//! grow with each version, and never from a server's clock. A deletion is always above what it deletes.

use crate::domain::timestamp::UnixMillis;

/// The time that is added to the timestamp of a page's deletion. Another writer may insert a text late; if its clock is
/// ahead by less than this time, the text is deleted already when it arrives. ScyllaDB refuses timestamps more than
/// three days in its future (by its documentation).
const AHEAD_OF_LATE_TEXTS: i64 = 24 * 60 * 60 * 1000;

/// The timestamp of the text of a page that was changed at `updated_at`.
pub(super) fn of_text(updated_at: UnixMillis) -> i64 {
    micros(updated_at.get())
}

/// The timestamp of the deletion of a text, of a page that was last changed at `updated_at`. The text is not newer.
pub(super) fn above_text(updated_at: UnixMillis) -> i64 {
    of_text(updated_at).saturating_add(1)
}

/// The timestamp of the deletion of all texts of a page that were written until `until`.
pub(super) fn above_all_texts(until: UnixMillis) -> i64 {
    micros(until.get().saturating_add(AHEAD_OF_LATE_TEXTS))
}

fn micros(millis: i64) -> i64 {
    millis.saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_is_above_every_text_of_the_page_until_then() {
        let (written, changed) = (UnixMillis::new(1_795_235_400_123), UnixMillis::new(1_795_235_400_124));
        assert!(above_text(written) > of_text(written) && above_text(changed) > of_text(written));
        let late = UnixMillis::new(changed.get() + 23 * 60 * 60 * 1000);
        assert!(above_all_texts(changed) > of_text(late));
        assert!(above_text(UnixMillis::new(i64::MAX)) > of_text(UnixMillis::new(i64::MAX)));
    }

    #[test]
    fn a_text_is_written_in_microseconds() {
        assert_eq!(of_text(UnixMillis::new(1_795_235_400_123)), 1_795_235_400_123_000);
    }
}
