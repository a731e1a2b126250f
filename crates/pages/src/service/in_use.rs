//! A value for each key that somebody uses at the moment, such as the queue of a page's writers.

use std::{collections::HashMap, hash::Hash, ops::Deref, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{Mutex as Queue, OwnedMutexGuard};

use crate::values::slug::Slug;

pub(super) struct InUse<K, V>(Arc<Mutex<HashMap<K, Shared<V>>>>);

struct Shared<V> {
    value: Arc<V>,
    users: usize,
}

/// The value of a key, which goes with the last of its users.
pub(super) struct Used<K: Eq + Hash, V> {
    all: InUse<K, V>,
    key: K,
    value: Arc<V>,
}

impl<K, V> Default for InUse<K, V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Clone + Eq + Hash, V: Default> InUse<K, V> {
    pub(super) fn take(&self, key: &K) -> Used<K, V> {
        let mut all = self.0.lock();
        let shared = all.entry(key.clone()).or_insert_with(|| Shared { value: Arc::default(), users: 0 });
        shared.users += 1;
        Used { all: InUse(Arc::clone(&self.0)), key: key.clone(), value: Arc::clone(&shared.value) }
    }
}

impl<K, V> InUse<K, V> {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

impl<K: Eq + Hash, V> Deref for Used<K, V> {
    type Target = Arc<V>;

    fn deref(&self) -> &Arc<V> {
        &self.value
    }
}

impl<K: Eq + Hash, V> Drop for Used<K, V> {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        if let Some(shared) = all.get_mut(&self.key) {
            shared.users -= 1;
            if shared.users == 0 {
                all.remove(&self.key);
            }
        }
    }
}

/// The writers of one page take turns in this process. Otherwise all but one of them would spend a round of the database
/// to learn that their version is old: on ScyllaDB, 48 writers of a page together made 1.8 changes a second, and one
/// writer 70.
#[derive(Default)]
pub(super) struct Turns(InUse<Slug, Queue<()>>);

/// The right to write a page, until this is dropped.
pub(super) struct Turn {
    /// Another writer was first, so what was read of the page is old.
    pub(super) has_waited: bool,
    _alone: OwnedMutexGuard<()>,
    _place: Used<Slug, Queue<()>>,
}

impl Turns {
    /// First come, first served.
    pub(super) async fn take(&self, slug: &Slug) -> Turn {
        // It counts a writer, also one that goes before its turn comes.
        let place = self.0.take(slug);
        let (alone, has_waited) = match Arc::clone(&place).try_lock_owned() {
            Ok(alone) => (alone, false),
            Err(_) => (Arc::clone(&place).lock_owned().await, true),
        };
        Turn { has_waited, _alone: alone, _place: place }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn slug(text: &str) -> Slug {
        Slug::parse(text).unwrap()
    }

    #[tokio::test]
    async fn writers_of_a_page_write_in_the_order_in_which_they_came() {
        let (turns, page) = (Turns::default(), slug("page-22222222"));
        let first = turns.take(&page).await;
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(turns.take(&page))).collect();
        assert!(waiting.iter_mut().all(|turn| turn.now_or_never().is_none()));
        assert!(!turns.take(&slug("page-33333333")).await.has_waited, "another page");
        // The second gives up.
        drop(waiting.remove(0));
        assert!(!first.has_waited);
        drop(first);
        assert!(waiting[1].as_mut().now_or_never().is_none());
        assert!(waiting.remove(0).await.has_waited);
        assert!(waiting.remove(0).await.has_waited);
        assert!(turns.0.is_empty(), "nothing is left");
    }
}
