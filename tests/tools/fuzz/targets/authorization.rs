#![no_main]

#[path = "../checks/authorization.rs"]
mod authorization;

libfuzzer_sys::fuzz_target!(|input: &[u8]| authorization::check(input));
