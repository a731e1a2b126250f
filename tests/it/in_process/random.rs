//! Random numbers that a test can repeat, so that it can force two slugs to be the same.

const SEED: u64 = 0x0068_616e_6462_696c;

/// The same bytes for every test, in the order in which they are drawn (`SplitMix64`).
#[derive(Debug)]
pub(crate) enum TestRng {
    Running(u64),
    Stuck,
}

impl TestRng {
    pub(crate) fn new() -> Self {
        Self::Running(SEED)
    }

    /// Starts over: the next numbers are the first ones again.
    pub(crate) fn rewind(&mut self) {
        *self = Self::new();
    }

    /// Yields zeros from now on, so that every suffix drawn is the same.
    pub(crate) fn stick(&mut self) {
        *self = Self::Stuck;
    }
    /// Fills `bytes` with the next numbers.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        match self {
            Self::Stuck => bytes.fill(0),
            Self::Running(counter) => bytes.fill_with(|| {
                *counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut mixed = *counter;
                mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                (mixed ^ (mixed >> 31)).to_le_bytes()[0]
            }),
        }
    }
}
