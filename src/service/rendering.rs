//! Rendering that never holds up the async runtime.

use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::domain::content::Content;
use crate::domain::markdown::{RENDERER_VERSION, Rendered, render};
use crate::domain::page::Page;

/// Content up to this many bytes is rendered where it stands: that takes less time than handing it to another thread
/// and back, even for the most laborious Markdown.
const INLINE_BYTES: usize = 1024;

/// Renders large content on threads of its own, no more at once than there are cores.
#[derive(Clone)]
pub(super) struct Rendering {
    permits: Arc<Semaphore>,
}

impl Rendering {
    pub(super) fn new() -> Self {
        let cores = available_parallelism().map_or(1, std::num::NonZero::get);
        Self { permits: Arc::new(Semaphore::new(cores)) }
    }

    /// The HTML of `content`.
    pub(super) async fn render(&self, content: &Content) -> Rendered {
        if content.as_str().len() <= INLINE_BYTES {
            return render(content.as_str());
        }
        let permit = Arc::clone(&self.permits).acquire_owned().await.expect("the semaphore is never closed");
        let content = content.clone();
        let rendered = spawn_blocking(move || {
            // The permit goes with the work: a caller that goes away does not make room for more of it.
            let _permit = permit;
            render(content.as_str())
        });
        rendered.await.expect("rendering is total")
    }

    /// `page`, rendered anew if an older renderer wrote it.
    pub(super) async fn current(&self, page: Arc<Page>) -> Arc<Page> {
        if page.rendered.renderer_version >= RENDERER_VERSION {
            return page;
        }
        let rendered = self.render(&page.content).await;
        Arc::new(Page { rendered, ..Page::clone(&page) })
    }
}
