//! Chance as a value, so that tests hold it.

use std::sync::Arc;

use zeroize::Zeroizing;

/// Yields bytes that nobody can predict.
pub trait Entropy: Send + Sync {
    /// Fills `bytes` with uniform random bytes.
    fn fill(&self, bytes: &mut [u8]);
}

/// Entropy that several owners draw from.
pub type SharedEntropy = Arc<dyn Entropy>;

/// The operating system's generator.
#[derive(Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        // Without it no key is safe to hand out, so there is nothing to fall back to.
        getrandom::fill(bytes).expect("the operating system's random generator answers");
    }
}

/// 64 random bits as 16 hexadecimal digits: enough to find a request in a year of logs, or to share a name with nothing.
pub fn hex_id(entropy: &dyn Entropy) -> String {
    let mut bytes = [0; 8];
    entropy.fill(&mut bytes);
    format!("{:016x}", u64::from_be_bytes(bytes))
}

/// A uniform number below `bound`, which is 1 to 256.
///
/// Bytes beyond the last whole multiple of `bound` are drawn again, so that no number is likelier than another.
pub fn index_below(entropy: &dyn Entropy, bound: usize) -> usize {
    debug_assert!((1..=256).contains(&bound));
    let fair = 256 - 256 % bound;
    loop {
        let mut byte = Zeroizing::new([0_u8; 1]);
        entropy.fill(&mut *byte);
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

    struct Counting(AtomicU8);

    impl Entropy for Counting {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill_with(|| self.0.fetch_add(1, Ordering::Relaxed));
        }
    }

    #[test]
    fn every_number_is_as_likely_as_any_other() {
        let every_byte_in_turn = Counting(AtomicU8::new(0));
        let mut drawn = [0; 62];
        for _ in 0..248 {
            drawn[index_below(&every_byte_in_turn, 62)] += 1;
        }
        assert_eq!(drawn, [4; 62]);
    }
}
