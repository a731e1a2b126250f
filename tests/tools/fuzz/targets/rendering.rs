#![no_main]

#[path = "../../../it/security/html.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod html;
#[path = "../checks/rendering.rs"]
mod rendering;

libfuzzer_sys::fuzz_target!(|input: &[u8]| rendering::check(input));
