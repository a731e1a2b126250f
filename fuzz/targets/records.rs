//! Runs `checks/records.rs` on what the fuzzer makes up.
//!
//! The format of records is private to its backend and stays so: the target compiles the file, and these names are
//! what it expects at the root of its crate.

#![no_main]

use handbill_core::domain;
use handbill_core::ports;

#[path = "../../crates/store-redb/src/packed_text.rs"]
mod packed_text;
#[path = "../../crates/store-redb/src/record.rs"]
mod record;
#[path = "../checks/records.rs"]
mod records;

libfuzzer_sys::fuzz_target!(|input: &[u8]| records::check(input));
