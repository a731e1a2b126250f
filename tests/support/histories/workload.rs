//! Many clients at work on many pages, each page with a burst of calls by several clients at once.
//!
//! Bursts are bounded, which bounds the cost of checking. The number of pages is not bounded.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

use bytes::Bytes;
use futures_util::future::join_all;
use http::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, HOST, IF_MATCH};
use http::{Method, Request, Response};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::history::{History, ServiceError};
use super::page::{Answer, Call, Shown, Text};
use super::transport::{Connection, Transport};
use crate::pages::new_key;

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Decides what each client asks for, but not how their calls interleave.
    pub seed: u64,
    /// How many calls must be answered at least. Failures do not count.
    pub calls: usize,
    pub groups: usize,
    pub clients: usize,
    /// Calls that each client makes to one page, except that some pages get more ([`LONGER`]).
    pub burst: usize,
    /// Whether clients are operators now and then, who hide pages, show them and take them down.
    pub has_operators: bool,
}

/// One page in this many gets longer bursts, so that it is written more often than a head remembers writes.
const LONGER: usize = 4;

const LONGER_BY: usize = 3;

/// A page with this many unknown outcomes gets no more calls, since the number of orders to try grows exponentially.
const UNKNOWN_OUTCOMES: usize = 8;

/// How long a client waits after a failure. In an outage, more calls would only slow down the tasks that end it.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// A store that works answers far sooner. The shortest time limit of a database or its driver is not shorter.
const STALLED: Duration = Duration::from_secs(1);

pub struct Outcome {
    pub histories: Vec<Arc<History>>,
    /// Calls that were answered, even with a refusal.
    pub answered: usize,
    /// Calls that were not answered, or that the service could not serve.
    pub failures: Vec<ServiceError>,
    pub slowest: Duration,
    started: Instant,
}

impl Outcome {
    pub fn violations(&self) -> Vec<&History> {
        self.histories.iter().filter(|history| !history.is_possible()).map(AsRef::as_ref).collect()
    }

    /// The pages with more than `writes` changes, and how many of them have a call of unknown outcome.
    pub fn changed_more_often_than(&self, writes: u64) -> (usize, usize) {
        let often = self.histories.iter().filter(|history| history.newest() > writes + 1);
        let (in_doubt, sure): (Vec<_>, Vec<_>) = often.partition(|history| history.unknown() > 0);
        (in_doubt.len() + sure.len(), in_doubt.len())
    }

    pub fn assert_linearizable(&self) {
        println!("{self}");
        if let violations @ [first, ..] = self.violations().as_slice() {
            panic!("{} are not linearizable, the first:\n{first}", violations.len());
        }
    }

    /// Fails if any call failed. One that a replica refused after it had waited for the store does not count: the machine was
    /// stalled, which the service cannot help. One that was lost on its way always counts.
    pub fn assert_no_failures(&self) {
        let is_stalled = |failure: &&ServiceError| failure.is_refusal && failure.took >= STALLED;
        let failures: Vec<_> = self.failures.iter().filter(|failure| !is_stalled(failure)).collect();
        let told = |ServiceError { began, took, told, .. }: &ServiceError| {
            format!("\n  after {:?}, in {took:?}: {told}", *began - self.started)
        };
        assert!(failures.is_empty(), "{self}:{}", failures.into_iter().map(told).collect::<String>());
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { histories, answered, failures, slowest, .. } = self;
        let (pages, failed) = (histories.len(), failures.len());
        write!(f, "{answered} calls answered on {pages} pages, {failed} failed, the slowest took {slowest:?}")
    }
}

struct Run {
    plan: Plan,
    started: Instant,
    answered: watch::Sender<usize>,
    /// Whether the future that [`run`] got as `meanwhile` has ended.
    over: watch::Sender<bool>,
    /// Whether that ends the run, however few calls were answered.
    is_cut_short: AtomicBool,
    /// Numbers the writes, so that each has values of its own.
    writes: AtomicU64,
    record: Mutex<Record>,
}

#[derive(Default)]
struct Record {
    pages: Vec<(Arc<History>, Arc<str>)>,
    failures: Vec<ServiceError>,
    slowest: Duration,
}

impl Run {
    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        let is_enough = *self.answered.borrow() >= self.plan.calls || self.is_cut_short.load(Ordering::Relaxed);
        *self.over.borrow() && is_enough
    }
}

pub struct Progress(Arc<Run>);

impl Progress {
    pub async fn more(&mut self, calls: usize) {
        let mut answered = self.0.answered.subscribe();
        let target = *answered.borrow() + calls;
        answered.wait_for(|answered| *answered >= target).await.expect("the run outlives what happens meanwhile");
    }

    pub fn so_far(&self) -> (usize, usize) {
        (*self.0.answered.borrow(), self.0.record().failures.len())
    }

    /// The number of histories from the page `first` on that no page can have, and the number of pages. A call without
    /// an answer so far may still get any.
    pub fn violations_from(&self, first: usize) -> (usize, usize) {
        let histories: Vec<_> = self.0.record().pages.iter().map(|(history, _)| Arc::clone(history)).collect();
        let violations = histories.iter().skip(first).filter(|history| !history.is_possible()).count();
        (violations, histories.len())
    }

    /// Ends the run with what happens meanwhile, however few calls were answered.
    pub fn cut_short(&self) {
        self.0.is_cut_short.store(true, Ordering::Relaxed);
    }
}

/// Carries out the plan while `meanwhile` runs. The clients go on until `meanwhile` has ended and enough calls were
/// answered. At the end every page is read once more, to check that acknowledged changes are still there.
pub async fn run(transport: &dyn Transport, plan: Plan, meanwhile: impl AsyncFnOnce(Progress)) -> Outcome {
    let run = Arc::new(Run {
        plan,
        started: Instant::now(),
        answered: watch::Sender::new(0),
        over: watch::Sender::new(false),
        is_cut_short: AtomicBool::new(false),
        writes: AtomicU64::new(0),
        record: Mutex::default(),
    });
    let groups: Vec<_> = (0..plan.groups)
        .map(|group| {
            let clients = (0..plan.clients).map(|client| Client::new(&run, transport, group * plan.clients + client));
            tokio::spawn(work(Arc::clone(&run), clients.collect()))
        })
        .collect();
    meanwhile(Progress(Arc::clone(&run))).await;
    run.over.send_replace(true);
    for group in join_all(groups).await {
        group.expect("no client panics");
    }
    let pages = std::mem::take(&mut run.record().pages);
    let mut reader = Client::new(&run, transport, plan.groups * plan.clients);
    for (history, key) in &pages {
        reader.call(history, key, Call::Get).await;
    }
    let Record { failures, slowest, .. } = std::mem::take(&mut *run.record());
    let histories: Vec<_> = pages.into_iter().map(|(history, _)| history).collect();
    Outcome { histories, answered: *run.answered.borrow(), failures, slowest, started: run.started }
}

/// Works on one page after the other, each with all `clients` at once, until the run is over.
async fn work(run: Arc<Run>, mut clients: Vec<Client>) {
    for round in 1.. {
        if run.is_over() {
            break;
        }
        let calls = run.plan.burst * if round % LONGER == 0 { LONGER_BY } else { 1 };
        let Some((history, key, create)) = clients[0].create().await else { continue };
        let first_tag = clients[0].tag.clone();
        run.record().pages.push((Arc::clone(&history), Arc::clone(&key)));
        let bursts = clients.into_iter().map(|mut client| {
            let (history, key, create) = (Arc::clone(&history), Arc::clone(&key), create.clone());
            (client.version, client.tag) = (1, first_tag.clone());
            tokio::spawn(async move {
                client.burst(&history, &key, &create, calls).await;
                client
            })
        });
        clients = join_all(bursts).await.into_iter().map(|client| client.expect("no client panics")).collect();
        clients[0].call(&history, &key, Call::Get).await;
    }
}

/// One client, which waits for each answer before its next call.
struct Client {
    run: Arc<Run>,
    number: usize,
    connection: Box<dyn Connection>,
    chance: Chance,
    /// The newest version of the page that the client was told about.
    version: u64,
    tag: String,
}

impl Client {
    fn new(run: &Arc<Run>, transport: &dyn Transport, number: usize) -> Self {
        let chance = Chance::new(run.plan.seed.wrapping_add((number as u64).wrapping_mul(0x5851_F42D_4C95_7F2D)));
        Self {
            run: Arc::clone(run),
            number,
            connection: transport.connect(number),
            chance,
            version: 1,
            tag: String::new(),
        }
    }

    /// Publishes a page, and sends the same again while nobody says whether it was published. If no try is answered, nobody
    /// knows the slug, so the page has no history.
    async fn create(&mut self) -> Option<(Arc<History>, Arc<str>, Call)> {
        let create = Call::Create { title: self.text("t"), content: self.text("c") };
        let (history, key) = (History::new(self.run.started), new_key());
        for _ in 0..UNKNOWN_OUTCOMES {
            let id = history.invoked(self.number, create.clone());
            let began = Instant::now();
            let response = self.connection.send(request("", &key, &create, "")).await;
            let body: Value = response
                .as_ref()
                .ok()
                .and_then(|response| serde_json::from_slice(response.body()).ok())
                .unwrap_or_default();
            let slug = body["slug"].as_str().unwrap_or_default();
            let answer = told(&response, slug);
            self.count(began, &answer, &response).await;
            history.answered(id, answer.clone());
            match answer {
                Answer::Created { .. } => {
                    response.iter().filter_map(tag).for_each(|tag| tag.clone_into(&mut self.tag));
                    return Some((Arc::new(history.about(slug.to_owned())), key.into(), create));
                }
                Answer::Unknown | Answer::NothingChanged => {}
                other => panic!("a page was refused: {other:?}"),
            }
        }
        None
    }

    async fn burst(&mut self, history: &History, key: &str, create: &Call, calls: usize) {
        for _ in 0..calls {
            if history.unknown() >= UNKNOWN_OUTCOMES {
                break;
            }
            let call = self.choose(create);
            self.call(history, key, call).await;
        }
    }

    /// The next call. Half of the calls read, few of them delete the page, and few send its `create` again.
    fn choose(&mut self, create: &Call) -> Call {
        let patch = |title, content| Call::Patch { title, content, if_match: None };
        if self.run.plan.has_operators {
            match self.chance.below(100) {
                0..4 => return Call::Hide,
                // A page that stays hidden tells little.
                4..10 => return Call::Show,
                10 => return Call::TakeDown,
                _ => {}
            }
        }
        match self.chance.below(100) {
            0..42 => Call::Get,
            42..45 => create.clone(),
            45..62 => patch(None, Some(self.text("c"))),
            62..75 => patch(Some(Some(self.text("t"))), None),
            75..78 => patch(Some(None), None),
            78..83 => patch(Some(Some(self.text("t"))), Some(self.text("c"))),
            83..85 => patch(None, None),
            85..97 => Call::Patch { title: None, content: Some(self.text("c")), if_match: Some(self.version) },
            97 => Call::Delete { if_match: Some(self.version) },
            _ => Call::Delete { if_match: None },
        }
    }

    async fn call(&mut self, history: &History, key: &str, call: Call) {
        let request = request(history.slug(), key, &call, &self.tag);
        let began = Instant::now();
        let id = history.invoked(self.number, call);
        let response = self.connection.send(request).await;
        let answer = told(&response, history.slug());
        if let Answer::Page(Shown { version, .. }) = answer {
            self.version = version;
            response.iter().filter_map(updated_at).for_each(|time| history.dated(version, &time));
            response.iter().filter_map(tag).for_each(|tag| tag.clone_into(&mut self.tag));
        }
        history.answered(id, answer.clone());
        self.count(began, &answer, &response).await;
    }

    async fn count(&mut self, began: Instant, answer: &Answer, response: &io::Result<Response<Bytes>>) {
        let failure = ServiceError::of(began, answer, response);
        let failed = failure.is_some();
        {
            let mut record = self.run.record();
            record.slowest = record.slowest.max(began.elapsed());
            record.failures.extend(failure);
        }
        if failed {
            tokio::time::sleep(AFTER_FAILURE).await;
        } else {
            self.run.answered.send_modify(|answered| *answered += 1);
        }
    }

    fn text(&self, kind: &str) -> Text {
        format!("{kind}{}", self.run.writes.fetch_add(1, Ordering::Relaxed)).into()
    }
}

/// The request for `call`. If the call requires a version, `tag` is that version's entity tag.
fn request(slug: &str, key: &str, call: &Call, tag: &str) -> Request<Bytes> {
    let builder = Request::builder().uri(format!("/api/pages/{slug}")).header(HOST, "pages.example");
    let if_match = |builder: http::request::Builder, version: &Option<u64>| match version {
        Some(_) => builder.header(IF_MATCH, tag),
        None => builder,
    };
    let by_operator = |path: &str, mut body: Value| {
        body["pages"] = json!([slug]);
        body["by"] = json!("histories");
        Request::post(path).header(HOST, "localhost").body(body.to_string().into())
    };
    let request = match call {
        Call::Hide => by_operator("/hide", json!({"reason": "spam"})),
        Call::Show => by_operator("/show", json!({})),
        Call::TakeDown => by_operator("/takedown", json!({"reason": "spam"})),
        Call::Create { title, content } => {
            let body = json!({"title": &**title, "content": &**content, "edit_key": key}).to_string();
            builder.method(Method::POST).uri("/api/pages").header(CONTENT_TYPE, "application/json").body(body.into())
        }
        Call::Get => builder.body(Bytes::new()),
        Call::Patch { title, content, if_match: required } => {
            let mut fields = Map::new();
            fields.extend(title.iter().map(|title| ("title".to_owned(), json!(title.as_deref()))));
            fields.extend(content.iter().map(|content| ("content".to_owned(), json!(&**content))));
            if_match(builder.method(Method::PATCH), required)
                .header(AUTHORIZATION, format!("Bearer {key}"))
                .header(CONTENT_TYPE, "application/json")
                .body(Value::Object(fields).to_string().into())
        }
        Call::Delete { if_match: required } => if_match(builder.method(Method::DELETE), required)
            .header(AUTHORIZATION, format!("Bearer {key}"))
            .body(Bytes::new()),
    };
    request.expect("it is valid")
}

/// What a client knows after a call about the page `slug`. A call to a listener that is not there was never made.
fn told(response: &io::Result<Response<Bytes>>, slug: &str) -> Answer {
    match response {
        Ok(response) => answer(response, slug),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Answer::NothingChanged,
        Err(_) => Answer::Unknown,
    }
}

fn answer(response: &Response<Bytes>, slug: &str) -> Answer {
    let unexpected = || Answer::Unexpected(format!("{} {:?}", response.status(), response.body()));
    let body: Value = serde_json::from_slice(response.body()).unwrap_or_default();
    match (response.status().as_u16(), body["error"].as_str()) {
        (201, None) if body["slug"] == slug => {
            version(response).map_or_else(unexpected, |version| Answer::Created { version })
        }
        (400, Some("key_in_use")) => Answer::KeyInUse,
        (200, None) if body.is_array() => outcome(&body[0]).unwrap_or_else(unexpected),
        (200, None) => page(response, &body).unwrap_or_else(unexpected),
        (204, None) => Answer::Deleted,
        (404, Some("not_found")) => Answer::NotFound,
        (410, Some("gone")) => Answer::Gone,
        (412, Some("precondition_failed")) => Answer::PreconditionFailed,
        (503, Some("unavailable"))
            if body["message"].as_str().is_some_and(|said| said.contains("Nothing was changed")) =>
        {
            Answer::NothingChanged
        }
        // The service does not know the outcome, or a load balancer found no replica or lost the one that it asked.
        (502..=504, _) => Answer::Unknown,
        _ => unexpected(),
    }
}

fn outcome(result: &Value) -> Option<Answer> {
    Some(match result["outcome"].as_str()? {
        "failed" if result["detail"].as_str()?.contains("Nothing was changed") => Answer::NothingChanged,
        "failed" => Answer::Unknown,
        outcome => Answer::Outcome(outcome.to_owned()),
    })
}

fn page(response: &Response<Bytes>, body: &Value) -> Option<Answer> {
    let title = match &body["title"] {
        Value::Null => None,
        title => Some(title.as_str()?.into()),
    };
    Some(Answer::Page(Shown { version: version(response)?, title, content: body["content"].as_str()?.into() }))
}

fn updated_at(response: &Response<Bytes>) -> Option<String> {
    let body: Value = serde_json::from_slice(response.body()).ok()?;
    body["updated_at"].as_str().map(str::to_owned)
}

fn tag(response: &Response<Bytes>) -> Option<&str> {
    response.headers().get(ETAG)?.to_str().ok()
}

/// The page's version, which is the first part of its entity tag.
fn version(response: &Response<Bytes>) -> Option<u64> {
    let tag = tag(response)?;
    tag.strip_prefix('"')?.split_once('-')?.0.parse().ok()
}

/// Numbers that follow from a seed, by Steele, Lea and Flood's `SplitMix64`.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`, evenly enough for choosing calls and faults.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}
