//! Chance that a test can repeat, so that it can force two slugs to be the same.

use std::sync::{Mutex, PoisonError};

use handbill::ports::random::Entropy;

const SEED: u64 = 0x0068_616e_6462_696c;

#[derive(Debug)]
enum State {
    Running(u64),
    Stuck,
}

/// The same bytes for every test, in the order in which they are drawn (`SplitMix64`).
#[derive(Debug)]
pub(crate) struct TestEntropy(Mutex<State>);

impl TestEntropy {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State::Running(SEED)))
    }

    /// Begins anew: what is drawn next is what was drawn first.
    pub(crate) fn rewind(&self) {
        self.set(State::Running(SEED));
    }

    /// Yields zeros from now on, so that every suffix drawn is the same.
    pub(crate) fn stick(&self) {
        self.set(State::Stuck);
    }

    fn set(&self, state: State) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

impl Entropy for TestEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *state {
            State::Stuck => bytes.fill(0),
            State::Running(counter) => bytes.fill_with(|| {
                *counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut mixed = *counter;
                mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                (mixed ^ (mixed >> 31)).to_le_bytes()[0]
            }),
        }
    }
}
