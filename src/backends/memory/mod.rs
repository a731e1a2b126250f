//! Rate limits of a single process, in its memory.

mod rate_limiter;

pub use rate_limiter::MemoryRateLimiter;
