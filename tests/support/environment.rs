//! The tests' environment: the variables that `./tests/run`, or whoever runs the tests, sets; settings of the service;
//! and how long a test waits.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Command};

/// Time after which a test gives up on something that should have happened. It is enough on any machine, and no test
/// depends on it being short.
pub const TEST_TIMEOUT: Duration = Duration::from_mins(5);

/// Longer than any decision or answer takes on any machine, unless it waits for a server that is gone. The service's own
/// limits are far shorter; `tests/it/spec/outages.rs` checks them, where no machine is slow.
pub const FAR_TOO_LONG: Duration = Duration::from_secs(20);

/// The output of `future`. The test fails if it takes longer than anything should: `what` names it.
pub async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TEST_TIMEOUT, Box::pin(future)).await.unwrap_or_else(|_| panic!("{what}: it does not happen"))
}

/// Asks again and again until `is_so`, as [`in_time`] waits.
pub async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    in_time(what, waiting).await;
}

pub fn from_the_runner(name: &str) -> String {
    variable(name).unwrap_or_else(|| panic!("{name} is not set: run ./tests/run, which starts the servers"))
}

pub fn folder(name: &str) -> PathBuf {
    from_the_runner(name).into()
}

/// The number in `name`, which whoever runs the tests may set.
pub fn setting<T: FromStr>(name: &str, default: T) -> T {
    let parse = |value: String| value.parse().ok().unwrap_or_else(|| panic!("{name} is not a number: {value}"));
    variable(name).map_or(default, parse)
}

pub fn settings<T: Args>(args: &[&str]) -> T {
    let command = T::augment_args(Command::new("handbill").no_binary_name(true));
    T::from_arg_matches(&command.try_get_matches_from(args).expect("they are valid")).expect("they are valid")
}

pub fn variable(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "the one place where the tests' own settings are read")]
    std::env::var(name).ok()
}
