#![no_main]

#[path = "../checks/request_json.rs"]
mod request_json;

libfuzzer_sys::fuzz_target!(|input: &[u8]| request_json::check(input));
