//! A value for each key that somebody uses at the moment, such as the queue of a page's writers.

use std::{collections::HashMap, hash::Hash, ops::Deref, sync::Arc};

use parking_lot::Mutex;

/// Clones share the values.
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

impl<K, V> Clone for InUse<K, V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Clone + Eq + Hash, V: Default> InUse<K, V> {
    pub(super) fn take(&self, key: &K) -> Used<K, V> {
        let mut all = self.0.lock();
        let shared = all.entry(key.clone()).or_insert_with(|| Shared { value: Arc::default(), users: 0 });
        shared.users += 1;
        Used { all: self.clone(), key: key.clone(), value: Arc::clone(&shared.value) }
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
