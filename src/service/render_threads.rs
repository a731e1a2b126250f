//! Renders Markdown without blocking the async runtime.

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::domain::content::Content;
use crate::domain::markdown::{Rendered, first_heading, render};
use crate::ports::renderer::Renderer;

/// Content up to this many bytes is rendered on the caller's thread. Most pages are this short, and passing one to
/// another thread and back costs about 20 µs of CPU. Other connections of the caller's thread wait meanwhile: a fraction
/// of a millisecond, or 10 ms for the slowest Markdown of this size (a 25th of the 250 ms that the longest may take).
const INLINE_BYTES: usize = 4 * 1024;

/// Renders large content on blocking threads, at most one for each core. It needs a Tokio runtime.
pub struct RenderThreads {
    permits: Arc<Semaphore>,
}

impl Default for RenderThreads {
    fn default() -> Self {
        let cores = available_parallelism().map_or(1, NonZero::get);
        Self { permits: Arc::new(Semaphore::new(cores)) }
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
    /// The result of `work` on the Markdown of `content`.
    async fn run<T: Send + 'static>(&self, content: &Content, work: fn(&str) -> T) -> T {
        if content.as_str().len() <= INLINE_BYTES {
            return work(content.as_str());
        }
        let permit = Arc::clone(&self.permits).acquire_owned().await.expect("the semaphore is never closed");
        let content = content.clone();
        let done = spawn_blocking(move || {
            // The thread holds the permit. So a caller that disconnects does not free the permit while its work still
            // runs.
            let _permit = permit;
            work(content.as_str())
        });
        done.await.expect("rendering is total")
    }
}
