//! How long shared caches may keep pages (contract, decision 21).

use std::time::Duration;

/// Longest time for which a page is served beyond its age while the cache asks for it again: many times what an answer takes.
const STALE_WHILE_REVALIDATE: Duration = Duration::from_secs(10);

/// Longest time for which a page is served beyond its age while the service fails: a restart takes less.
const STALE_IF_ERROR: Duration = Duration::from_mins(1);

/// Permission for shared caches to answer with a page without asking whether it has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeCaching {
    /// How long a page is served without a question. No time beyond it is longer, so that whoever wants pages to be fresh
    /// sets this time alone.
    pub max_age: Duration,
}

impl EdgeCaching {
    fn stale_while_revalidate(self) -> Duration {
        self.max_age.min(STALE_WHILE_REVALIDATE)
    }

    fn stale_if_error(self) -> Duration {
        self.max_age.min(STALE_IF_ERROR)
    }

    /// Longest time that a reader may get a page after it was changed or deleted, even if no purge arrives.
    pub fn bound(self) -> Duration {
        self.max_age + self.stale_while_revalidate() + self.stale_if_error()
    }

    /// The value of `CDN-Cache-Control` (RFC 9213), in whole seconds.
    pub fn directives(self) -> String {
        let [fresh, revalidate, error] =
            [self.max_age, self.stale_while_revalidate(), self.stale_if_error()].map(|time| time.as_secs());
        format!("max-age={fresh}, stale-while-revalidate={revalidate}, stale-if-error={error}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_the_sum_of_all_that_caches_are_told() {
        for (max_age, bound, directives) in [
            (300, 370, "max-age=300, stale-while-revalidate=10, stale-if-error=60"),
            (30, 70, "max-age=30, stale-while-revalidate=10, stale-if-error=30"),
            (1, 3, "max-age=1, stale-while-revalidate=1, stale-if-error=1"),
        ] {
            let caching = EdgeCaching { max_age: Duration::from_secs(max_age) };
            assert_eq!((caching.bound(), caching.directives()), (Duration::from_secs(bound), directives.to_owned()));
        }
    }
}
