//! The filter of the log, which can be changed while the process runs.

use std::sync::Arc;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::reload;

use super::request_end;

/// Changes which events are logged. Clones change the same log.
#[derive(Clone)]
pub struct LogFilter {
    change: Arc<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>,
    current: Arc<dyn Fn() -> String + Send + Sync>,
}

impl LogFilter {
    /// A filter for a subscriber that passes what `directives` say, and what changes it.
    pub fn new<S: 'static>(directives: EnvFilter) -> (Self, reload::Layer<EnvFilter, S>) {
        request_end::look_at(&directives);
        let (layer, handle) = reload::Layer::new(directives);
        let change = {
            let handle = handle.clone();
            Arc::new(move |directives| handle.reload(directives))
        };
        let current = Arc::new(move || handle.with_current(ToString::to_string).unwrap_or_default());
        (Self { change, current }, layer)
    }

    /// The filter that `directives` ask for. An error says why they are not valid.
    pub fn parse(directives: &str) -> Result<EnvFilter, String> {
        EnvFilter::builder().parse(directives).map_err(|error| error.to_string())
    }

    /// Passes what `directives` say from now on. Libraries stay below the level that they may never exceed.
    pub fn change(&self, directives: EnvFilter) -> Result<(), String> {
        request_end::look_at(&directives);
        (self.change)(directives).map_err(|error| error.to_string())
    }

    pub fn current(&self) -> String {
        (self.current)()
    }
}
