//! Runs `checks/forwarding.rs` on what the fuzzer makes up.

#![no_main]

#[path = "../checks/forwarding.rs"]
mod forwarding;

libfuzzer_sys::fuzz_target!(|input: &[u8]| forwarding::check(input));
