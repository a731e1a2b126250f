//! Tests that need programs of other people: clients, validators and browsers. `./tests/run` installs them. A test whose
//! program is missing fails; none is skipped.

mod browser;
mod clients;
