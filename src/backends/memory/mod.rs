//! Rate limits and slug reservations of a single process, held in its memory.

mod rate_limiter;
mod slug_reservations;

pub use rate_limiter::MemoryRateLimiter;
pub use slug_reservations::MemorySlugReservations;
