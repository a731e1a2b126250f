//! Randomness as a value, so that tests control it.
//!
//! A reference to the shared handle is a generator: `(&random).next_u64()`. Each draw is a system call. `rand::rng()` computes its
//! numbers in this process, so it must not make keys.

use std::{convert::Infallible, sync::Arc};

use rand::{Rng, TryRng, rand_core::utils::next_word_via_fill, rngs::SysRng};
use zeroize::Zeroizing;

use crate::values::slug::{SECRET_BYTES, SlugSecret};

#[derive(Clone)]
pub enum Random {
    System,
    Controlled(Arc<Fill>),
}

type Fill = dyn Fn(&mut [u8]) + Send + Sync;

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
            // There is no fallback: without the generator, no key is safe.
            Random::System => SysRng.try_fill_bytes(bytes).expect("the operating system's random generator works"),
            Random::Controlled(fill) => fill(bytes),
        }
        Ok(())
    }
}

/// Enough to find one request in a year of logs.
pub fn hex_id(mut rng: impl Rng) -> String {
    format!("{:016x}", rng.next_u64())
}

pub fn new_slug_secret(mut rng: impl Rng) -> SlugSecret {
    let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
    rng.fill_bytes(&mut *bytes);
    SlugSecret::from_bytes(*bytes)
}

/// Enough for an edit key and the suffix of a slug in most cases, for the price of one draw.
const BLOCK_BYTES: usize = 64;

/// Uniform numbers, each of 1 to 256 possible ones. (`rand`'s `random_range` is slightly biased, and leaves what it drew in memory.)
pub struct Indices<'a> {
    random: &'a Random,
    block: Zeroizing<[u8; BLOCK_BYTES]>,
    /// Not used yet; they are the last ones.
    left: usize,
}

impl Random {
    pub fn indices(&self) -> Indices<'_> {
        Indices { random: self, block: Zeroizing::new([0; BLOCK_BYTES]), left: 0 }
    }
}

impl Indices<'_> {
    pub fn below(&mut self, bound: usize) -> usize {
        debug_assert!((1..=256).contains(&bound));
        let fair = 256 - 256 % bound;
        loop {
            let drawn = usize::from(self.byte());
            if drawn < fair {
                return drawn % bound;
            }
        }
    }

    fn byte(&mut self) -> u8 {
        if self.left == 0 {
            self.random.fill_bytes(&mut *self.block);
            self.left = BLOCK_BYTES;
        }
        self.left -= 1;
        self.block[BLOCK_BYTES - 1 - self.left]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;

    #[test]
    fn the_systems_bytes_differ_from_draw_to_draw() {
        fn draw() -> Vec<u64> {
            (0..100).map(|_| (&Random::System).next_u64()).collect()
        }

        let mut all = [draw(), std::thread::spawn(draw).join().unwrap(), draw()].concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 300);
    }

    #[test]
    fn every_number_is_as_likely_as_any_other() {
        let next = AtomicU8::new(0);
        let random = Random::Controlled(Arc::new(move |every_byte_in_turn: &mut [u8]| {
            every_byte_in_turn.fill_with(|| next.fetch_add(1, Ordering::Relaxed));
        }));
        let (mut indices, mut drawn) = (random.indices(), [0; 62]);
        for _ in 0..248 {
            drawn[indices.below(62)] += 1;
        }
        assert_eq!(drawn, [4; 62]);
    }
}
