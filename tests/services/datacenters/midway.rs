//! Work that a move finds half done: a sweep and an import of the old side, which go on once the new side writes.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use handbill::app::Deps;
use handbill::operators::archive::import::{ImportError, Importer};
use handbill_core::domain::archive::Entry;
use handbill_core::domain::content::Content;
use handbill_core::domain::page::Page;
use handbill_core::ports::clock::{Clock, SystemClock};
use handbill_core::ports::page_store::{Lookup, PageStore, StoreError};
use handbill_core::ports::renderer::{Checks, Made, Purpose, RenderError, Renderer};
use handbill_store_cql::{CqlStore, Share, SweepError, SweepPlan, SweepReport, sweep};
use scylla::statement::{Consistency, Statement};
use scylla::value::CqlTimestamp;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::ring::{EAST, Ring, WEST};
use crate::environment::in_time;
use crate::support::pages::{page, slug};

/// Texts that the sweep would find after the move.
const LEFT: usize = 60;

/// Younger texts are not swept.
const MIN_AGE: Duration = Duration::from_mins(10);

/// Stores `count` texts without a head, as crashes leave them, which are old enough for a sweep. Returns their slugs.
pub(super) async fn leave_texts(ring: &Ring, count: usize) -> BTreeSet<String> {
    let session = ring.session().await;
    let at = SystemClock::new().now().get() - 2 * i64::try_from(MIN_AGE.as_millis()).unwrap();
    let mut insert = Statement::new(format!(
        "INSERT INTO {}.texts (slug, text_version, text_nonce, content, html, inserted_at) \
         VALUES (?, 1, 0x00112233445566778899aabbccddeeff, 'left by a crash', '', ?) USING TIMESTAMP ?",
        ring.keyspace
    ));
    insert.set_consistency(Consistency::All);
    let mut slugs = BTreeSet::new();
    for _ in 0..count {
        let slug = slug().to_string();
        session.query_unpaged(insert.clone(), (&slug, CqlTimestamp(at), at * 1000)).await.unwrap();
        slugs.insert(slug);
    }
    slugs
}

/// How many texts of `slugs` there are.
async fn texts_of(ring: &Ring, slugs: &BTreeSet<String>) -> usize {
    let mut select = Statement::new(format!("SELECT slug FROM {}.texts", ring.keyspace));
    select.set_consistency(Consistency::All);
    let found = ring.session().await.query_unpaged(select, ()).await.unwrap().into_rows_result().unwrap();
    found.rows::<(String,)>().unwrap().filter(|row| slugs.contains(&row.as_ref().unwrap().0)).count()
}

/// A renderer that hangs: it says that it has begun, and waits.
struct Hung {
    renderer: Arc<dyn Renderer>,
    begun: watch::Sender<bool>,
    may_go_on: watch::Receiver<bool>,
}

#[async_trait]
impl Renderer for Hung {
    async fn render(&self, content: &Content, purpose: Purpose, checks: Checks) -> Result<Made, RenderError> {
        self.begun.send_replace(true);
        self.may_go_on.clone().wait_for(|may| *may).await.expect("the test goes on");
        self.renderer.render(content, purpose, checks).await
    }

    async fn first_heading(&self, content: &Content, purpose: Purpose) -> Result<Option<String>, RenderError> {
        self.renderer.first_heading(content, purpose).await
    }
}

/// A sweep and the import of a page, on the old side, that are in the midst of their work until they are told to go on.
pub(super) struct Midway {
    page: Arc<Page>,
    go_on_sweeping: mpsc::Sender<()>,
    go_on_importing: watch::Sender<bool>,
    sweep: JoinHandle<Result<SweepReport, SweepError>>,
    import: JoinHandle<Result<(), ImportError>>,
}

impl Midway {
    pub(super) async fn begin(ring: &Ring) -> Self {
        let (begun, mut has_begun) = watch::channel(false);
        let (go_on_sweeping, may_sweep) = mpsc::channel();
        let settings = ring.settings(WEST);
        let plan = SweepPlan {
            dry_run: false,
            min_age: MIN_AGE,
            share: Share::WHOLE,
            rows_per_second: NonZero::new(100_000).unwrap(),
            now: SystemClock::new().now(),
        };
        let hangs = move |percent: u8, _: &SweepReport| {
            if percent >= 50 && !begun.send_replace(true) {
                may_sweep.recv().expect("the test goes on");
            }
        };
        let sweeping = move || Handle::current().block_on(sweep(&settings, plan, hangs));
        let sweep = tokio::task::spawn_blocking(sweeping);
        in_time("half a sweep", has_begun.wait_for(|begun| *begun)).await.unwrap();

        let (begun, mut has_begun) = watch::channel(false);
        let (go_on_importing, may_go_on) = watch::channel(false);
        let renderer = Arc::new(Hung { renderer: Deps::system().renderer, begun, may_go_on });
        let store = Arc::new(ring.patient_store(WEST).await);
        let (page, clock) = (Arc::new(page("imported late")), Arc::new(SystemClock::new()));
        let entry = Entry::of(&page);
        let importing = async move { Importer { store, renderer, clock }.import(entry).await.map(|_| ()) };
        let import = tokio::spawn(importing);
        in_time("half an import", has_begun.wait_for(|begun| *begun)).await.unwrap();
        Self { page, go_on_sweeping, go_on_importing, sweep, import }
    }

    /// Goes on with both. They must be refused, and must not have changed anything.
    pub(super) async fn end(self, ring: &Ring, east: &CqlStore) {
        let left = leave_texts(ring, LEFT).await;
        self.go_on_sweeping.send(()).unwrap();
        let swept = in_time("the end of the sweep", self.sweep).await.unwrap();
        assert!(matches!(swept, Err(SweepError::Fenced(_))), "{swept:?}");
        assert_eq!(texts_of(ring, &left).await, LEFT, "it deleted what is not its own any more");
        self.go_on_importing.send_replace(true);
        let imported = in_time("the end of the import", self.import).await.unwrap();
        assert!(matches!(imported, Err(ImportError::Store(StoreError::Fenced(_)))), "{imported:?}");
        let slug = &self.page.head.slug;
        assert_eq!(east.lookup(slug).await.unwrap(), Lookup::Absent);
        assert_eq!(texts_of(ring, &BTreeSet::from([slug.to_string()])).await, 0);

        let swept = ring.command("sweep", &["--min-age", "10m", "--scylla-datacenter", EAST]).await;
        assert_eq!((swept.code, texts_of(ring, &left).await), (Some(0), 0), "the new side sweeps: {swept:?}");
    }
}
