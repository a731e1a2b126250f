//! Randomness as a value, so that tests control it.
//!
//! A reference to the shared handle is a generator: `(&random).next_u64()`. Each thread has its own block of the
//! operating system's bytes, so there is no lock. `rand::rng()` computes its numbers in this process, so it must not
//! make keys.

use std::cell::RefCell;
use std::convert::Infallible;
use std::sync::Arc;

use rand::rand_core::utils::next_word_via_fill;
use rand::rngs::SysRng;
use rand::{Rng, TryRng};
use zeroize::{Zeroize, Zeroizing};

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
            Random::System => {
                // An ending thread has no block.
                let drawn = BLOCK.try_with(|block| block.borrow_mut().draw(bytes, fetch));
                drawn.unwrap_or_else(|_| fetch(bytes));
            }
            Random::Controlled(fill) => fill(bytes),
        }
        Ok(())
    }
}

/// A system call costs the same for 1 byte or 512.
const BLOCK_BYTES: usize = 512;

thread_local! {
    static BLOCK: RefCell<Block> = RefCell::new(Block::empty());
}

/// There is no fallback: without the generator, no key is safe.
fn fetch(bytes: &mut [u8]) {
    SysRng.try_fill_bytes(bytes).expect("the operating system's random generator works");
}

/// Bytes of the operating system's generator, each wiped as it is drawn. Handbill never forks: a copy would draw the same
/// bytes.
struct Block {
    bytes: Zeroizing<[u8; BLOCK_BYTES]>,
    /// Not drawn yet; they are the last ones.
    left: usize,
}

impl Block {
    fn empty() -> Self {
        Self { bytes: Zeroizing::new([0; BLOCK_BYTES]), left: 0 }
    }

    fn draw(&mut self, mut out: &mut [u8], fetch: impl Fn(&mut [u8])) {
        while !out.is_empty() {
            if self.left == 0 {
                fetch(&mut *self.bytes);
                self.left = BLOCK_BYTES;
            }
            let count = out.len().min(self.left);
            let begin = BLOCK_BYTES - self.left;
            let drawn = &mut self.bytes[begin..begin + count];
            let (now, later) = out.split_at_mut(count);
            now.copy_from_slice(drawn);
            drawn.zeroize();
            self.left -= count;
            out = later;
        }
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

/// A uniform number below `bound`, which is 1 to 256. (`rand`'s `random_range` is slightly biased, and leaves what it drew
/// in memory.)
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
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;

    /// Fills with the numbers 1, 2, 3, … and then with them again, in every block.
    fn counting(bytes: &mut [u8]) {
        bytes.iter_mut().zip((1..=u8::MAX).cycle()).for_each(|(byte, number)| *byte = number);
    }

    #[test]
    fn bytes_are_drawn_in_order_and_each_only_once() {
        let mut block = Block::empty();
        let mut drawn = Vec::new();
        for count in [1, 0, 43, 468, 1, 1100, 7] {
            let mut bytes = vec![0; count];
            block.draw(&mut bytes, counting);
            drawn.extend(bytes);
        }
        let mut fetched = [0; BLOCK_BYTES];
        counting(&mut fetched);
        let expected: Vec<u8> = fetched.into_iter().cycle().take(drawn.len()).collect();
        assert_eq!(drawn, expected);
    }

    #[test]
    fn a_byte_is_wiped_as_it_is_drawn() {
        let mut block = Block::empty();
        for drawn in 1..=BLOCK_BYTES {
            block.draw(&mut [0], counting);
            let (wiped, left) = block.bytes.split_at(drawn);
            assert!(wiped.iter().all(|&byte| byte == 0), "after {drawn} bytes");
            assert!(left.iter().all(|&byte| byte != 0), "after {drawn} bytes");
        }
    }

    #[test]
    fn the_systems_bytes_differ_from_draw_to_draw() {
        let draw = || (0..100).map(|_| (&Random::System).next_u64()).collect::<Vec<_>>();
        let mut all = [draw(), std::thread::spawn(draw).join().unwrap(), draw()].concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 300);
    }

    #[test]
    fn every_number_is_as_likely_as_any_other() {
        let next = AtomicU8::new(0);
        let every_byte_in_turn = move |bytes: &mut [u8]| bytes.fill_with(|| next.fetch_add(1, Ordering::Relaxed));
        let random = Random::Controlled(Arc::new(every_byte_in_turn));
        let mut drawn = [0; 62];
        for _ in 0..248 {
            drawn[index_below(&random, 62)] += 1;
        }
        assert_eq!(drawn, [4; 62]);
    }
}
