//! Randomness as a value, so that tests control it.
//!
//! `rand`'s generators need `&mut`, and many requests draw at once. So [`Random`] is a handle, and a reference to it is
//! a generator: `(&random).next_u64()`. The operating system's generator has no state, so production takes no lock; a
//! test puts its own generator behind a mutex. Keys must be unpredictable, so `rand::rng()`, which computes its numbers
//! in this process, is never used.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use rand::rand_core::utils::next_word_via_fill;
use rand::rngs::SysRng;
use rand::{Rng, TryRng};
use zeroize::Zeroizing;

/// A source of random numbers. Clones share it.
#[derive(Clone)]
pub enum Random {
    /// The operating system's generator.
    System,
    /// A generator that a test controls.
    Controlled(Arc<Mutex<dyn Rng + Send>>),
}

impl TryRng for &Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        next_word_via_fill(self)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        next_word_via_fill(self)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        match self {
            // Without the system's generator no key is safe to give out, so there is nothing to fall back to.
            Random::System => SysRng.try_fill_bytes(bytes).expect("the operating system's random generator works"),
            Random::Controlled(rng) => rng.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(bytes),
        }
        Ok(())
    }
}

/// 64 random bits as 16 hexadecimal digits: enough to find one request in a year of logs, or to make a unique name.
pub fn hex_id(mut rng: impl Rng) -> String {
    format!("{:016x}", rng.next_u64())
}

/// A uniform number below `bound`, which is 1 to 256.
///
/// Bytes beyond the last whole multiple of `bound` are drawn again, so that every number is exactly as likely as any
/// other. Keys are made of these numbers, so `rand`'s `random_range` will not do: it is slightly biased, and leaves
/// what it drew in memory.
pub fn index_below(mut rng: impl Rng, bound: usize) -> usize {
    debug_assert!((1..=256).contains(&bound));
    let fair = 256 - 256 % bound;
    loop {
        let mut byte = Zeroizing::new([0_u8; 1]);
        rng.fill_bytes(&mut *byte);
        let drawn = usize::from(byte[0]);
        if drawn < fair {
            return drawn % bound;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct EveryByteInTurn(u8);

    impl TryRng for EveryByteInTurn {
        type Error = Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Infallible> {
            next_word_via_fill(self)
        }

        fn try_next_u64(&mut self) -> Result<u64, Infallible> {
            next_word_via_fill(self)
        }

        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
            bytes.fill_with(|| {
                self.0 = self.0.wrapping_add(1);
                self.0
            });
            Ok(())
        }
    }

    #[test]
    fn every_number_is_as_likely_as_any_other() {
        let mut every_byte_in_turn = EveryByteInTurn(u8::MAX);
        let mut drawn = [0; 62];
        for _ in 0..248 {
            drawn[index_below(&mut every_byte_in_turn, 62)] += 1;
        }
        assert_eq!(drawn, [4; 62]);
    }
}
