//! How long shared caches may keep pages (contract, decision 21).

use std::time::Duration;

/// Permission for shared caches to answer with a page without asking whether it has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeCaching {
    /// How long a page is served without a question.
    pub max_age: Duration,
    /// How much longer it is served while the cache asks for the page again.
    pub stale_while_revalidate: Duration,
    /// How much longer it is served while the service fails.
    pub stale_if_error: Duration,
}

impl EdgeCaching {
    /// Longest time that a reader may get a page after it was changed or deleted, even if no purge arrives.
    pub fn bound(self) -> Duration {
        self.max_age + self.stale_while_revalidate + self.stale_if_error
    }

    /// The value of `CDN-Cache-Control` (RFC 9213), in whole seconds.
    pub fn directives(self) -> String {
        let [fresh, revalidate, error] =
            [self.max_age, self.stale_while_revalidate, self.stale_if_error].map(|time| time.as_secs());
        format!("max-age={fresh}, stale-while-revalidate={revalidate}, stale-if-error={error}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_the_sum_of_all_that_caches_are_told() {
        let [max_age, stale_while_revalidate, stale_if_error] = [60, 10, 300].map(Duration::from_secs);
        let caching = EdgeCaching { max_age, stale_while_revalidate, stale_if_error };
        assert_eq!(caching.bound(), Duration::from_secs(370));
        assert_eq!(caching.directives(), "max-age=60, stale-while-revalidate=10, stale-if-error=300");
    }
}
