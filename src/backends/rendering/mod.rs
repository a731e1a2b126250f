//! Renders Markdown without blocking the async runtime, or on the caller's thread.

use std::num::NonZero;
use std::thread::available_parallelism;

use async_trait::async_trait;
use tokio::runtime::{Builder, Runtime};
use tokio_util::task::AbortOnDropHandle;

use super::niceness::give_way;
use crate::domain::content::Content;
use crate::domain::markdown::{Rendered, first_heading, render};
use crate::ports::renderer::Renderer;

/// Content up to this many bytes is short. Most pages are. It takes about a millisecond, and the longest content up to
/// 30 ms if it is hostile.
const SHORT_BYTES: usize = 4 * 1024;

/// Renders on threads of its own, which give way to threads that answer: a read takes only some microseconds. Passing
/// content to another thread and back costs about 20 µs of CPU. Short content does not wait for long content.
#[derive(Default)]
pub struct RenderThreads {
    short: Threads,
    long: Threads,
}

/// One thread for each core. None of them exists while there is nothing to do.
struct Threads {
    /// Has the threads, and no task. It is absent only while this value is dropped.
    runtime: Option<Runtime>,
}

impl Default for Threads {
    fn default() -> Self {
        let cores = available_parallelism().map_or(1, NonZero::get);
        let runtime = Builder::new_current_thread()
            .max_blocking_threads(cores)
            .thread_name("handbill-render")
            .on_thread_start(give_way)
            .build();
        Self { runtime: Some(runtime.expect("a runtime without a driver needs nothing of the system")) }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // An async task may drop this value, and must not wait for a rendering.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[async_trait]
impl Renderer for RenderThreads {
    async fn render(&self, content: &Content) -> Rendered {
        self.run(content, render).await
    }

    async fn first_heading(&self, content: &Content) -> Option<String> {
        self.run(content, first_heading).await
    }
}

impl RenderThreads {
    /// The result of `work` on the Markdown of `content`. Work that has not begun is dropped with its caller.
    async fn run<T: Send + 'static>(&self, content: &Content, work: impl FnOnce(&str) -> T + Send + 'static) -> T {
        let content = content.clone();
        let threads = if content.as_str().len() <= SHORT_BYTES { &self.short } else { &self.long };
        let runtime = threads.runtime.as_ref().expect("it is not dropped");
        let done = runtime.handle().spawn_blocking(move || work(content.as_str()));
        AbortOnDropHandle::new(done).await.expect("rendering is total")
    }
}

/// Renders on the caller's thread: for tests whose time does not pass by itself, and to count the instructions of one
/// thread.
pub struct RenderInPlace;

#[async_trait]
impl Renderer for RenderInPlace {
    async fn render(&self, content: &Content) -> Rendered {
        render(content.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, RecvError, Sender};
    use std::time::Duration;

    use futures_util::FutureExt;
    use futures_util::future::join_all;
    use tokio::time::timeout;

    use super::*;

    /// Longest wait for work that must not wait. Nothing depends on it being short.
    const MAX_WAIT: Duration = Duration::from_mins(1);

    fn content(bytes: usize) -> Content {
        Content::parse("a".repeat(bytes)).unwrap()
    }

    fn cores() -> usize {
        available_parallelism().map_or(1, NonZero::get)
    }

    /// Works that wait until the first value is dropped.
    fn gates(count: usize) -> (Vec<Sender<()>>, Vec<impl FnOnce(&str) -> bool + Send>) {
        let gate = |()| {
            let (open, opened) = mpsc::channel();
            (open, move |_: &str| opened.recv().is_err())
        };
        std::iter::repeat_n((), count).map(gate).unzip()
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn rendering_leaves_the_core_to_threads_that_answer() {
        use rustix::process::getpriority_process;

        let threads = RenderThreads::default();
        let own = getpriority_process(None).unwrap();
        let theirs = threads.run(&content(1), |_| getpriority_process(None).unwrap()).await;
        assert_eq!(theirs, (own + 10).min(19));
        assert_eq!(getpriority_process(None).unwrap(), own);
    }

    #[tokio::test]
    async fn short_content_does_not_wait_for_long_content() {
        let (threads, long) = (RenderThreads::default(), content(SHORT_BYTES + 1));
        let (open, works) = gates(2 * cores());
        let mut all = Box::pin(join_all(works.into_iter().map(|work| threads.run(&long, work))));
        assert!((&mut all).now_or_never().is_none());
        let short = content(SHORT_BYTES);
        assert_eq!(timeout(MAX_WAIT, threads.run(&short, str::len)).await, Ok(SHORT_BYTES));
        drop(open);
        all.await;
    }

    #[tokio::test]
    async fn work_that_has_not_begun_is_dropped_with_its_caller() {
        let (threads, content) = (RenderThreads::default(), content(1));
        let (open, works) = gates(cores());
        let mut all = Box::pin(join_all(works.into_iter().map(|work| threads.run(&content, work))));
        assert!((&mut all).now_or_never().is_none());
        let (tell, told) = mpsc::channel();
        let waiting = threads.run(&content, move |_| tell.send(()));
        assert!(waiting.now_or_never().is_none(), "it waits for a thread");
        drop(open);
        all.await;
        assert_eq!(told.recv(), Err(RecvError), "it was dropped");
    }
}
