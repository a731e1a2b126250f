//! Renders Markdown without blocking the async runtime, or on the caller's thread.
//!
//! Memory and waiting are bounded, on any number of cores. A text waits for its turn in a queue, and a permit of
//! it pays for one thread and for memory until the work has ended, also if the caller has disconnected by then. Work that
//! does not end loses its permit, and its thread is replaced.

mod queue;

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use async_trait::async_trait;
use handbill_core::niceness::give_way;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::queue::{Limits, Queue, Ticket};
use crate::config::Budgets;
use handbill_core::domain::content::Content;
use handbill_core::domain::markdown::{first_heading, render};
use handbill_core::ports::renderer::{Checks, Made, Memory, Purpose, RenderError, Renderer};

/// Content up to this many bytes is short. Most pages are. It takes about a millisecond, and the longest content up to
/// 30 ms if it is hostile. Each has a queue of its own, so that short content does not wait for long content.
const SHORT_BYTES: usize = 4 * 1024;

/// Memory that a rendering is charged for each byte of its source, until its HTML is stored. HTML of short content may
/// become 22 times its source (4038 bytes of references became 87 957). At most 148 were measured: 14.8 MB more resident memory
/// of `handbill render` with 100 KB of `~~a ` than with one letter, the most of 137 hostile texts (0.3.0, x86-64).
const BYTES_PER_SOURCE_BYTE: usize = 150;

/// Most renderings of long content at once, on any number of cores.
const MAX_LONG_AT_ONCE: usize = 4;

/// Most renderings of short content at once. They take at most 5 MB together.
const MAX_SHORT_AT_ONCE: usize = 8;

/// Longest wait for a turn. A caller that would wait longer does better to come again. Beside a busy database the threads,
/// which give way, may take more than a second for short texts.
const TURN_TIMEOUT: Duration = Duration::from_secs(2);

/// Work that takes longer has no end. Rendering takes at most 250 ms of CPU (contract decision 12), and a thread that
/// gives way may wait long for a core: with a quarter of a core beside readers, some texts took 10 s.
const HUNG_AFTER: Duration = Duration::from_mins(1);

/// Threads that may hang in the life of a process. Each holds its memory and a core for good.
pub const MAX_HUNG: u64 = 4;

/// Renders on threads of its own, which give way to threads that answer: a read takes only some microseconds. Passing
/// content to another thread and back costs about 20 µs of CPU.
pub struct RenderThreads {
    /// Has the threads, and no task. None of them exists while there is nothing to do. It is absent only while this value
    /// is dropped.
    runtime: Option<Runtime>,
    short: Arc<TurnQueue>,
    long: Arc<TurnQueue>,
    hung: Counter,
    too_many_hung: CancellationToken,
}

impl Drop for RenderThreads {
    fn drop(&mut self) {
        // An async task may drop this value, and must not wait for a rendering.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl RenderThreads {
    /// Threads that work within `budgets`, add to `hung` each time one of them hangs, and cancel `too_many_hung` at the last
    /// that is replaced.
    pub fn new(budgets: &Budgets, hung: Counter, too_many_hung: CancellationToken) -> Self {
        let cores = available_parallelism().map_or(1, NonZero::get);
        let turns = |at_once, budget: u64, waiting| {
            let budget_bytes = usize::try_from(budget).unwrap_or(usize::MAX);
            Arc::new(TurnQueue(Mutex::new(Queue::new(Limits { at_once: cores.min(at_once), budget_bytes, waiting }))))
        };
        let runtime = Builder::new_current_thread()
            // Whoever has a turn finds a thread, even after some hang.
            .max_blocking_threads(
                MAX_SHORT_AT_ONCE + MAX_LONG_AT_ONCE + usize::try_from(MAX_HUNG).unwrap_or(usize::MAX),
            )
            .thread_name("handbill-render")
            .on_thread_start(give_way)
            .build();
        Self {
            runtime: Some(runtime.expect("a runtime without a driver needs nothing of the system")),
            short: turns(MAX_SHORT_AT_ONCE, budgets.short_texts, 2048),
            long: turns(MAX_LONG_AT_ONCE, budgets.long_texts, 128),
            hung,
            too_many_hung,
        }
    }

    /// The result of `work` on the Markdown of `content`, and the permit for the bytes that `kept` says it takes. A caller
    /// that disconnects while it waits leaves nothing behind.
    async fn run<T: Send + 'static>(
        &self,
        content: &Content,
        purpose: Purpose,
        work: impl FnOnce(&str) -> T + Send + 'static,
        kept: fn(&T) -> usize,
    ) -> Result<(T, Permit), RenderError> {
        let bytes = content.as_str().len();
        let turns = if bytes <= SHORT_BYTES { &self.short } else { &self.long };
        let mut permit = turns.permit(purpose, bytes.saturating_mul(BYTES_PER_SOURCE_BYTE)).await?;
        let content = content.clone();
        let runtime = self.runtime.as_ref().expect("it is not dropped");
        let running = runtime.handle().spawn_blocking(move || work(content.as_str()));
        let (sender, result) = oneshot::channel();
        let (hung, too_many_hung) = (self.hung.clone(), self.too_many_hung.clone());
        // The permit must outlive a caller that disconnects.
        tokio::spawn(async move {
            let mut running = running;
            let mut result = timeout(HUNG_AFTER / 2, &mut running).await;
            if result.is_err() {
                // A process that was paused finds the first half over, and does its work in the second.
                result = timeout(HUNG_AFTER / 2, running).await;
            }
            if result.is_err() {
                let before = hung.inc();
                tracing::error!(hung = before + 1, "a rendering did not end, so its thread was given up");
                if before + 1 >= MAX_HUNG {
                    too_many_hung.cancel();
                }
            }
            permit.end_turn(result.as_ref().ok().and_then(|done| done.as_ref().ok()).map_or(0, kept));
            let _ = sender.send((result, permit));
        });
        let (result, permit) = result.await.expect("the task sends something");
        Ok((result.map_err(|_| RenderError::Hung)?.expect("rendering is total"), permit))
    }
}

#[async_trait]
impl Renderer for RenderThreads {
    async fn render(&self, content: &Content, purpose: Purpose, checks: Checks) -> Result<Made, RenderError> {
        let work = move |source: &str| checked(source, &checks);
        // Memory for a page until it is stored: an update has its HTML twice, and a store makes a record of it.
        let kept = |made: &Made| 2 * made.rendered.html.len();
        let (made, permit) = self.run(content, purpose, work, kept).await?;
        Ok(Made { memory: Memory::of(permit), ..made })
    }

    async fn first_heading(&self, content: &Content, purpose: Purpose) -> Result<Option<String>, RenderError> {
        let (heading, _) = self.run(content, purpose, first_heading, |_| 0).await?;
        Ok(heading)
    }
}

/// The HTML of `source`, and the results of `checks`. A hostile text takes up to 28 ms for the blocklist, and 3 ms for the key.
fn checked(source: &str, Checks { blocklist, key }: &Checks) -> Made {
    let rendered = render(source);
    let is_refused = blocklist.as_ref().is_some_and(|blocklist| blocklist.refuses(source, &rendered.html));
    let shows_key = key.as_ref().is_some_and(|key| rendered.exposes(|text| key.occurs_in(text)));
    Made { rendered, is_refused, shows_key, memory: Memory::of(()) }
}

/// A queue, and those who are called when their turn comes.
struct TurnQueue(Mutex<Queue<oneshot::Sender<()>>>);

/// A place in the queue, then the right to render a text, then to keep what came out of it, until this is dropped.
struct Permit {
    turns: Arc<TurnQueue>,
    place: Ticket,
    /// The bytes of what came out of the turn; `None` until then.
    kept: Option<usize>,
}

impl Permit {
    /// Ends the turn, and keeps at most `kept` of its bytes.
    fn end_turn(&mut self, kept: usize) {
        let kept = kept.min(self.place.bytes());
        self.kept = Some(kept);
        self.turns.change(|queue| queue.end_turn(self.place, kept));
    }
}

impl TurnQueue {
    /// Waits for a turn that takes `bytes` of memory.
    async fn permit(self: &Arc<Self>, purpose: Purpose, bytes: usize) -> Result<Permit, RenderError> {
        let (call, called) = oneshot::channel();
        let place = self.change(|queue| queue.join(purpose, bytes, call)).ok_or(RenderError::Overloaded)?;
        let permit = Permit { turns: Arc::clone(self), place, kept: None };
        let longest = if purpose == Purpose::Upkeep { Duration::MAX } else { TURN_TIMEOUT };
        timeout(longest, called).await.map(|_| permit).map_err(|_| RenderError::Overloaded)
    }

    /// Changes the queue, then calls those whose turn has come.
    fn change<R>(&self, change: impl FnOnce(&mut Queue<oneshot::Sender<()>>) -> R) -> R {
        let mut queue = self.0.lock();
        let changed = change(&mut queue);
        while let Some(call) = queue.next() {
            // Whoever has just gone away drops the permit.
            let _ = call.send(());
        }
        changed
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.turns.change(|queue| match self.kept {
            None => queue.leave(self.place),
            Some(kept) => queue.give_back(kept),
        });
    }
}

/// Renders on the caller's thread: for tests whose time does not pass by itself, and to count the instructions of one
/// thread.
pub struct RenderInPlace;

#[async_trait]
impl Renderer for RenderInPlace {
    async fn render(&self, content: &Content, _purpose: Purpose, checks: Checks) -> Result<Made, RenderError> {
        Ok(checked(content.as_str(), &checks))
    }

    async fn first_heading(&self, content: &Content, _purpose: Purpose) -> Result<Option<String>, RenderError> {
        Ok(first_heading(content.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::mpsc::{self, RecvError, Sender};

    use futures_util::FutureExt;
    use futures_util::future::join_all;
    use tokio::time::Instant;

    use super::*;
    use handbill_core::domain::client::Client;
    use handbill_core::domain::edit_key::EditKey;

    /// Longest wait for work that must not wait. Nothing depends on it being short.
    const MAX_WAIT: Duration = Duration::from_mins(1);

    /// For four of the longest texts at once.
    fn budgets() -> Budgets {
        Budgets { short_texts: 8 << 20, long_texts: 64 << 20, ..Budgets::default() }
    }

    fn content(bytes: usize) -> Content {
        Content::parse("a".repeat(bytes)).unwrap()
    }

    fn threads() -> RenderThreads {
        RenderThreads::new(&budgets(), Counter::default(), CancellationToken::new())
    }

    fn cores() -> usize {
        available_parallelism().map_or(1, NonZero::get)
    }

    fn preview(client: u8) -> Purpose {
        Purpose::Preview(Client::from(IpAddr::from(Ipv4Addr::new(192, 0, 2, client))))
    }

    fn write(client: u8) -> Purpose {
        Purpose::Write(Client::from(IpAddr::from(Ipv4Addr::new(192, 0, 2, client))))
    }

    /// Works that wait until the first value is dropped.
    fn gates(count: usize) -> (Vec<Sender<()>>, Vec<impl FnOnce(&str) -> bool + Send + 'static>) {
        let gate = |()| {
            let (open, opened) = mpsc::channel();
            (open, move |_: &str| opened.recv().is_err())
        };
        std::iter::repeat_n((), count).map(gate).unzip()
    }

    /// Does `work`, of which nothing is kept.
    async fn run<T: Send + 'static>(
        threads: &RenderThreads,
        content: &Content,
        purpose: Purpose,
        work: impl FnOnce(&str) -> T + Send + 'static,
    ) -> Result<T, RenderError> {
        threads.run(content, purpose, work, |_| 0).await.map(|(done, _)| done)
    }

    /// Lets every task run until it waits.
    async fn settle() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn rendering_leaves_the_core_to_threads_that_answer() {
        use rustix::process::getpriority_process;

        let threads = threads();
        let own = getpriority_process(None).unwrap();
        let theirs = run(&threads, &content(1), write(1), |_| getpriority_process(None).unwrap()).await;
        assert_eq!(theirs, Ok((own + 10).min(19)));
        assert_eq!(getpriority_process(None).unwrap(), own);
    }

    #[tokio::test]
    async fn a_key_that_only_the_html_shows_is_found_in_it() {
        let key = EditKey::parse(&format!("hbk_{}", "a".repeat(43))).unwrap();
        for (text, shown) in [("&#104;bk_", true), ("hbk_", true), ("&#105;bk_", false)] {
            let content = Content::parse(format!("{text}{}", "a".repeat(43))).unwrap();
            let checks = Checks { key: Some(key.clone()), ..Checks::default() };
            assert_eq!(threads().render(&content, write(1), checks).await.unwrap().shows_key, shown, "{text}");
        }
    }

    #[tokio::test]
    async fn short_content_does_not_wait_for_long_content() {
        let (threads, long) = (threads(), content(SHORT_BYTES + 1));
        let (open, works) = gates(2 * cores().min(MAX_LONG_AT_ONCE));
        let mut all = Box::pin(join_all(works.into_iter().map(|work| run(&threads, &long, write(1), work))));
        assert!((&mut all).now_or_never().is_none());
        let short = content(SHORT_BYTES);
        assert_eq!(timeout(MAX_WAIT, run(&threads, &short, preview(1), str::len)).await, Ok(Ok(SHORT_BYTES)));
        drop(open);
        assert!(all.await.into_iter().all(|done| done == Ok(true)));
    }

    #[tokio::test]
    async fn work_that_has_not_begun_is_dropped_with_its_caller() {
        let (threads, content) = (threads(), content(1));
        let (open, works) = gates(cores().min(MAX_SHORT_AT_ONCE));
        let mut all = Box::pin(join_all(works.into_iter().map(|work| run(&threads, &content, write(1), work))));
        assert!((&mut all).now_or_never().is_none());
        let (tell, told) = mpsc::channel();
        let waiting = run(&threads, &content, write(1), move |_| tell.send(()));
        assert!(waiting.now_or_never().is_none(), "it waits for a turn");
        drop(open);
        all.await;
        assert_eq!(told.recv(), Err(RecvError), "it was dropped");
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_disconnects_while_its_work_runs_keeps_the_permit_taken_until_the_work_ends() {
        let (threads, content) = (threads(), content(1));
        let (open, works) = gates(cores().min(MAX_SHORT_AT_ONCE));
        let mut all = Box::pin(join_all(works.into_iter().map(|work| run(&threads, &content, write(1), work))));
        assert!((&mut all).now_or_never().is_none());
        drop(all);
        assert_eq!(run(&threads, &content, write(2), |_| ()).await, Err(RenderError::Overloaded));
        tokio::time::resume();
        drop(open);
        assert_eq!(timeout(MAX_WAIT, run(&threads, &content, Purpose::Upkeep, |_| ())).await, Ok(Ok(())));
    }

    #[tokio::test]
    async fn html_that_is_not_stored_yet_counts_towards_the_budget() {
        let short = format!("[a]: /{}\n\n{}", "x".repeat(60), "[a]".repeat(1300));
        let Budgets { long_texts, short_texts, .. } = budgets();
        for (text, budget) in [("<a@b.c>".repeat(14_000), long_texts), (short, short_texts)] {
            let (threads, content) = (threads(), Content::parse(text).unwrap());
            let mut held = Vec::new();
            let refused = loop {
                match threads.render(&content, write(1), Checks::default()).await {
                    Ok(made) => held.push(made),
                    Err(error) => break error,
                }
            };
            assert_eq!(refused, RenderError::Overloaded);
            let bytes: u64 = held.iter().map(|made| 2 * made.rendered.html.len() as u64).sum();
            assert!((budget / 2..=budget).contains(&bytes), "{bytes}");
            held.truncate(1);
            assert!(threads.render(&content, write(1), Checks::default()).await.is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_was_paused_with_its_process_does_not_hang() {
        let counter = Counter::default();
        let threads = RenderThreads::new(&budgets(), counter.clone(), CancellationToken::new());
        let (open, works) = gates(1);
        let content = content(1);
        let mut running = Box::pin(join_all(works.into_iter().map(|work| run(&threads, &content, write(1), work))));
        assert!((&mut running).now_or_never().is_none());
        settle().await;
        tokio::time::advance(10 * HUNG_AFTER).await;
        settle().await;
        tokio::time::resume();
        drop(open);
        assert_eq!((running.await, counter.get()), (vec![Ok(true)], 0));
    }

    #[tokio::test]
    async fn previews_over_the_bounds_are_refused_at_once_and_those_within_them_succeed() {
        let (threads, long) = (threads(), content(SHORT_BYTES + 1));
        let at_once = cores().min(MAX_LONG_AT_ONCE);
        let (open, works) = gates(at_once);
        let mut busy = Box::pin(join_all(works.into_iter().map(|work| run(&threads, &long, preview(1), work))));
        assert!((&mut busy).now_or_never().is_none());
        let mut flood = Box::pin(join_all((0..600_u16).map(|number| {
            let client = preview(u8::try_from(number / 10).unwrap());
            run(&threads, &long, client, |_| ())
        })));
        assert!((&mut flood).now_or_never().is_none(), "some wait");
        drop(open);
        busy.await;
        let answers = flood.await;
        let succeeded = answers.iter().filter(|answer| answer.is_ok()).count();
        assert_eq!((succeeded, answers.len()), (128, 600));
        assert!(answers.iter().all(|answer| matches!(answer, Ok(()) | Err(RenderError::Overloaded))));
    }

    #[tokio::test(start_paused = true)]
    async fn those_whose_turn_does_not_come_in_time_are_told_so_but_the_services_own_work_goes_on_waiting() {
        let (threads, long) = (threads(), content(SHORT_BYTES + 1));
        let (open, works) = gates(cores().min(MAX_LONG_AT_ONCE));
        let mut busy = Box::pin(join_all(works.into_iter().map(|work| run(&threads, &long, preview(1), work))));
        assert!((&mut busy).now_or_never().is_none());
        let mut upkeep = Box::pin(run(&threads, &long, Purpose::Upkeep, |_| ()));
        assert!((&mut upkeep).now_or_never().is_none());
        let began = Instant::now();
        assert_eq!(run(&threads, &long, write(1), |_| ()).await, Err(RenderError::Overloaded));
        assert_eq!(began.elapsed(), TURN_TIMEOUT);
        assert!((&mut upkeep).now_or_never().is_none());
        // From here on threads work, for which time must pass by itself.
        tokio::time::resume();
        drop(open);
        busy.await;
        assert_eq!(timeout(MAX_WAIT, upkeep).await, Ok(Ok(())));
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_hangs_is_given_up_and_its_thread_is_replaced_four_times() {
        let (counter, too_many) = (Counter::default(), CancellationToken::new());
        let threads = RenderThreads::new(&budgets(), counter.clone(), too_many.clone());
        let (open, works) = gates(usize::try_from(MAX_HUNG).unwrap());
        for (before, work) in works.into_iter().enumerate() {
            assert!(!too_many.is_cancelled(), "{before}");
            let began = Instant::now();
            assert_eq!(run(&threads, &content(1), write(1), work).await, Err(RenderError::Hung));
            assert_eq!((began.elapsed(), counter.get()), (HUNG_AFTER, before as u64 + 1));
        }
        assert!(too_many.is_cancelled());
        // Until the process ends, there are as many threads as before.
        let count = cores().min(MAX_SHORT_AT_ONCE) + cores().min(MAX_LONG_AT_ONCE);
        let meeting = Arc::new(std::sync::Barrier::new(count));
        let meet = |number| {
            let (bytes, meeting) =
                (if number < cores().min(MAX_SHORT_AT_ONCE) { 1 } else { SHORT_BYTES + 1 }, Arc::clone(&meeting));
            let threads = &threads;
            async move { run(threads, &content(bytes), write(1), move |_| meeting.wait().is_leader()).await }
        };
        tokio::time::resume();
        assert!(join_all((0..count).map(meet)).await.into_iter().all(|met| met.is_ok()));
        drop(open);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_hangs_is_noticed_even_if_its_caller_has_disconnected() {
        let (counter, too_many) = (Counter::default(), CancellationToken::new());
        let threads = RenderThreads::new(&budgets(), counter.clone(), too_many);
        let (_open, works) = gates(1);
        for work in works {
            assert!(run(&threads, &content(1), write(1), work).now_or_never().is_none());
        }
        for half in 0..2 {
            settle().await;
            tokio::time::advance((HUNG_AFTER / 2).saturating_sub(Duration::from_millis(1))).await;
            settle().await;
            assert_eq!(counter.get(), 0, "{half}");
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        settle().await;
        assert_eq!(counter.get(), 1);
    }
}
