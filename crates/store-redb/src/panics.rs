//! Turns panics of the database library into errors.
//!
//! `redb` reads its pages without verifying their checksums, and panics on a page that makes no sense. A damaged file must
//! not end a thread or write lines to standard error that are not part of the log.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

/// Exit code of a process whose data file is damaged: the same as for a start that is refused.
const EXIT_CODE: i32 = 2;

thread_local! {
    /// The number of panics on this thread that [`caught`] has not caught yet; `None` while `caught` is not running.
    static PANICS: Cell<Option<u8>> = const { Cell::new(None) };

    static LOCATION: RefCell<String> = const { RefCell::new(String::new()) };
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the database panicked at {location}: {message}")]
pub(super) struct Panicked {
    message: String,
    location: String,
}

/// The result of `work`, or its panic. Data that `work` shares with others must stay usable after a panic, or the caller
/// must discard it.
pub(super) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            match PANICS.get() {
                None => before(info),
                Some(0) => note(info),
                // The first panic is not caught yet. This one happened in the cleanup of the first, so the process is
                // about to abort.
                Some(_) => end(info),
            }
        }));
    });
    let outer = PANICS.replace(Some(0));
    let answer = panic::catch_unwind(AssertUnwindSafe(work));
    PANICS.set(outer);
    answer.map_err(|payload| Panicked { message: message(&*payload), location: LOCATION.take() })
}

/// Remembers the location of a panic that [`caught`] will return.
fn note(info: &PanicHookInfo<'_>) {
    PANICS.set(Some(1));
    LOCATION.set(location(info));
}

/// Prints one line and ends the process, as when a store has failed for good. An abort would print much more than one
/// line.
fn end(info: &PanicHookInfo<'_>) {
    let (first, second) = (LOCATION.take(), location(info));
    let _ = writeln!(
        io::stderr(),
        "handbill: the database panicked at {first} and again at {second}: its file is damaged, restore it from a backup",
    );
    std::process::exit(EXIT_CODE);
}

fn location(info: &PanicHookInfo<'_>) -> String {
    info.location().map_or_else(String::new, |location| {
        let file = location.file();
        // The directories in the path are from the machine that compiled the program, so they are left out.
        format!("{}:{}", file.rsplit(['/', '\\']).next().unwrap_or(file), location.line())
    })
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
    text.unwrap_or("without a message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::no_wait::{WouldWait, may_wait, without_waiting, would_wait};
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_that_says_what_and_where() {
        assert_eq!(caught(|| 7), Ok(7));
        let error = caught(|| panic!("page {} is damaged", 3)).unwrap_err().to_string();
        assert!(error.starts_with("the database panicked at panics.rs:"), "{error}");
        assert!(error.ends_with(": page 3 is damaged"), "{error}");
    }

    #[test]
    fn a_panic_within_one_that_is_caught_is_caught_where_it_belongs() {
        let outer = caught(|| {
            let inner = caught(|| panic!("inner")).unwrap_err();
            assert!(inner.to_string().ends_with("inner"));
            panic!("outer");
        });
        assert!(outer.unwrap_err().to_string().ends_with("outer"));
    }

    #[test]
    fn a_lookup_that_would_wait_is_no_panic_and_one_that_panics_is() {
        let waits = || {
            if !may_wait() {
                would_wait();
            }
        };
        assert_eq!(caught(|| without_waiting(waits)), Ok(Err(WouldWait)));
        let panicked = caught(|| without_waiting(|| panic!("as planned"))).unwrap_err();
        assert!(panicked.to_string().ends_with(": as planned"), "{panicked}");
    }
}
