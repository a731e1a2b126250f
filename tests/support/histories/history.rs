//! The history of one page: who asked for what, who was told what, in the order in which it happened.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

use bytes::Bytes;
use http::Response;
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History as Actions};

use super::page::{Answer, Call, Page};

#[derive(Clone, Copy, Debug)]
pub struct CallId(usize);

/// One call. Moments are places in the order of all events of this history.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    client: usize,
    pub(super) call: Call,
    pub(super) invoked: usize,
    pub(super) answered: Option<(usize, Answer)>,
    began: Instant,
    took: Duration,
}

/// A call that got no answer, or was told that the service could not serve it.
#[derive(Clone, Debug)]
pub struct ServiceError {
    pub began: Instant,
    pub took: Duration,
    /// The status and the body, or why there are none.
    pub told: String,
    /// Whether a replica answered. If not, a connection broke, or the load balancer answered in its place.
    pub is_refusal: bool,
}

impl ServiceError {
    pub fn of(began: Instant, answer: &Answer, response: &io::Result<Response<Bytes>>) -> Option<Self> {
        let failed = matches!(answer, Answer::Unknown | Answer::NothingChanged);
        failed.then(|| Self {
            began,
            took: began.elapsed(),
            told: match response {
                Ok(response) => format!("{} {:?}", response.status(), response.body()),
                Err(error) => error.to_string(),
            },
            is_refusal: response.as_ref().is_ok_and(|response| response.headers().contains_key("x-request-id")),
        })
    }
}

#[derive(Debug, Default)]
struct Calls {
    recorded: Vec<Recorded>,
    moments: usize,
    /// The time of the last change that was shown with each version. Its form is fixed, so it sorts as text.
    dates: BTreeMap<u64, String>,
    is_dated_twice: bool,
}

#[derive(Debug)]
pub struct History {
    slug: String,
    started: Instant,
    calls: Mutex<Calls>,
}

impl History {
    /// An empty history of a page that has no name yet; times in reports count from `started`.
    pub fn new(started: Instant) -> Self {
        Self { slug: String::new(), started, calls: Mutex::default() }
    }

    /// This history, now that the page is known as `slug`.
    #[must_use]
    pub fn about(self, slug: String) -> Self {
        Self { slug, ..self }
    }

    pub fn slug(&self) -> &str {
        &self.slug
    }

    /// Records that `client` is about to make `call`. Call this before any part of the request is sent.
    pub fn invoked(&self, client: usize, call: Call) -> CallId {
        self.with(|calls| {
            let (invoked, began) = (calls.moment(), Instant::now());
            calls.recorded.push(Recorded { client, call, invoked, answered: None, began, took: Duration::ZERO });
            CallId(calls.recorded.len() - 1)
        })
    }

    /// Records what the call was told. Call this once all of the answer has been read.
    pub fn answered(&self, id: CallId, answer: Answer) {
        self.with(|calls| {
            let moment = calls.moment();
            let recorded = &mut calls.recorded[id.0];
            recorded.answered = Some((moment, answer));
            recorded.took = recorded.began.elapsed();
        });
    }

    /// Records that `version` was shown with `updated_at` as the time of its change.
    pub fn dated(&self, version: u64, updated_at: &str) {
        self.with(|calls| {
            let known = calls.dates.entry(version).or_insert_with(|| updated_at.to_owned());
            calls.is_dated_twice |= *known != updated_at;
        });
    }

    pub fn newest(&self) -> u64 {
        self.with(|calls| calls.dates.last_key_value().map_or(1, |(version, _)| *version))
    }

    /// How many calls were given up, or were not told whether they had changed anything.
    pub fn unknown(&self) -> usize {
        let is_unknown = |recorded: &&Recorded| matches!(recorded.answered, Some((_, Answer::Unknown)));
        self.with(|calls| calls.recorded.iter().filter(is_unknown).count())
    }

    /// Whether one page could have had this history: see [`History::is_linearizable`], and the time of the last change
    /// grows with each version, however clocks stand.
    pub fn is_possible(&self) -> bool {
        let is_dated_in_order =
            self.with(|calls| !calls.is_dated_twice && calls.dates.values().is_sorted_by(|one, next| one < next));
        is_dated_in_order && self.is_linearizable()
    }

    /// Whether some order of the calls, in which each takes effect at one moment between its beginning and its answer,
    /// explains every answer.
    pub fn is_linearizable(&self) -> bool {
        let mut moments = Vec::new();
        self.with(|calls| {
            for (id, recorded) in calls.recorded.iter().enumerate() {
                let (until, answer) = match &recorded.answered {
                    // This answer promises that the call had no effect, so there is nothing to place.
                    Some((_, Answer::NothingChanged)) => continue,
                    Some((moment, answer)) if *answer != Answer::Unknown => (*moment, answer.clone()),
                    // A read has no effect that could come late either.
                    _ if matches!(recorded.call, Call::Get) => continue,
                    // A moment after all others stands for never.
                    _ => (calls.moments + 1 + id, Answer::Unknown),
                };
                let operation = (recorded.call.clone(), answer);
                moments.push((recorded.invoked, id, Action::Call(operation.clone())));
                moments.push((until, id, Action::Response(operation)));
            }
        });
        moments.sort_by_key(|(moment, ..)| *moment);
        // To the checker each call is a process of its own, since a client makes further calls even if one stays open
        // for ever.
        let actions: Vec<_> = moments.into_iter().map(|(_, id, action)| (id, action)).collect();
        actions.is_empty() || WGLChecker::<Page>::is_linearizable(Actions::from_actions(actions))
    }

    fn with<T>(&self, work: impl FnOnce(&mut Calls) -> T) -> T {
        work(&mut self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Calls {
    fn moment(&mut self) -> usize {
        self.moments += 1;
        self.moments
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "page {}: moments, seconds, client, call → answer", self.slug)?;
        self.with(|calls| {
            calls.recorded.iter().try_for_each(|recorded| {
                let Recorded { client, call, invoked, answered, began, took } = recorded;
                let (after, took) = ((*began - self.started).as_secs_f64(), took.as_secs_f64());
                let (until, answer) = match answered {
                    Some((until, answer)) => (until.to_string(), format!("{answer:?}")),
                    None => ("…".to_owned(), "none".to_owned()),
                };
                writeln!(f, "  {invoked:>4}–{until:<4} {after:8.3} + {took:.3} {client:>3} {call:?} → {answer}")
            })?;
            writeln!(f, "  times of the versions: {:?}, two for one: {}", calls.dates, calls.is_dated_twice)
        })
    }
}
