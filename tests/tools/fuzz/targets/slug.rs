#![no_main]

#[path = "../checks/slug.rs"]
mod slug;

libfuzzer_sys::fuzz_target!(|input: &[u8]| slug::check(input));
