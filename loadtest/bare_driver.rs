//! The least that a read of a page from the cluster can cost on Handbill's own stack: a bare axum handler that sends the
//! store's two queries, of the head and of its text, with the driver's own defaults.
//!
//!     bare_driver <nodes> <keyspace>
//!     bare_driver <nodes> <keyspace> rows
//!
//! With `rows` it reads the rows of all pages, one page of the driver's after another, and prints how many bytes their texts have:
//! the least that an export can cost. `tests/move/run` compares the two.
//!
//! Without, `GET /<slug>` is answered with the page's source and HTML. There is no cache, no limit, no retry and no log. The
//! start-up line on standard output names the listener. A test compares the queries with those of the store.

use std::error::Error;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use futures_util::TryStreamExt;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, Statement};
use scylla::value::{CqlTimestamp, CqlValue, Row};
use tokio::net::TcpListener;

type Failure = Box<dyn Error + Send + Sync>;

/// The columns of a head, as the store selects them.
const HEAD: &str = "state, version, created_at, updated_at, deleted_at, title, key_hash, current_text_version, \
                    current_text_nonce, link_origins, renderer_version, takedown_reason, takedown_by, nonces";

/// The columns of a text, as the store selects them.
const TEXT: &str = "text_version, text_nonce, content, html, excerpt, code_blocks, language";

/// Rows of one request with `rows`.
const ROWS_AT_ONCE: i32 = 500;

/// The columns of [`HEAD`], and the time of the last write.
type HeadRow<'row> = (
    Option<&'row str>,
    Option<i64>,
    Option<CqlTimestamp>,
    Option<CqlTimestamp>,
    Option<CqlTimestamp>,
    Option<&'row str>,
    Option<&'row [u8]>,
    Option<i64>,
    Option<&'row [u8]>,
    Option<Vec<String>>,
    Option<i32>,
    Option<&'row str>,
    Option<&'row str>,
    Option<&'row [u8]>,
    Option<i64>,
);

/// The columns of [`TEXT`].
type TextRow<'row> =
    (i64, &'row [u8], Option<&'row str>, Option<&'row str>, Option<&'row str>, Option<Vec<i32>>, Option<&'row str>);

struct Pages {
    session: Session,
    read_head: PreparedStatement,
    read_text: PreparedStatement,
}

impl Pages {
    async fn of(nodes: &str, keyspace: &str) -> Result<Self, Failure> {
        let session = SessionBuilder::new().known_nodes(nodes.split(',')).build().await?;
        let (pages, texts) = (format!("{keyspace}.pages"), format!("{keyspace}.texts"));
        let text_key = "slug = ? AND text_version = ? AND text_nonce = ?";
        let prepare = async |cql: String| {
            let mut statement = session.prepare(Statement::new(cql)).await?;
            statement.set_consistency(Consistency::LocalQuorum);
            statement.set_is_idempotent(true);
            statement.set_use_cached_result_metadata(true);
            Ok::<_, Failure>(statement)
        };
        let read_head = format!("SELECT {HEAD}, WRITETIME(version) AS written_at FROM {pages} WHERE slug = ?");
        let read_text = format!("SELECT {TEXT} FROM {texts} WHERE {text_key}");
        let (read_head, read_text) = (prepare(read_head).await?, prepare(read_text).await?);
        Ok(Self { session, read_head, read_text })
    }

    /// The bytes of all texts. Reads all rows.
    async fn read_rows(&self, keyspace: &str) -> Result<usize, Failure> {
        let heads = format!("SELECT slug, {HEAD}, WRITETIME(version) AS written_at FROM {keyspace}.pages");
        let texts = format!("SELECT slug, {TEXT} FROM {keyspace}.texts");
        let read = async |cql: String| {
            let statement = Statement::new(cql).with_page_size(ROWS_AT_ONCE);
            let mut statement = self.session.prepare(statement).await?;
            statement.set_consistency(Consistency::LocalQuorum);
            Ok::<_, Failure>(self.session.execute_iter(statement, ()).await?)
        };
        let mut heads = read(heads).await?.rows_stream::<Row>()?;
        let mut bytes = 0;
        while heads.try_next().await?.is_some() {}
        let mut texts = read(texts).await?.rows_stream::<Row>()?;
        while let Some(row) = texts.try_next().await? {
            bytes += row.columns.iter().flatten().filter_map(CqlValue::as_text).map(String::len).sum::<usize>();
        }
        Ok(bytes)
    }

    /// The source and the HTML of a page, or `None` if there is no such page.
    async fn read(&self, slug: &str) -> Result<Option<String>, Failure> {
        let head = self.session.execute_unpaged(&self.read_head, (slug,)).await?.into_rows_result()?;
        let Some(head) = head.maybe_first_row::<HeadRow<'_>>()? else { return Ok(None) };
        let (Some(version), Some(nonce)) = (head.7, head.8) else { return Ok(None) };
        let text = self.session.execute_unpaged(&self.read_text, (slug, version, nonce)).await?.into_rows_result()?;
        let Some(text) = text.maybe_first_row::<TextRow<'_>>()? else { return Ok(None) };
        Ok(Some([text.2.unwrap_or_default(), text.3.unwrap_or_default()].concat()))
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let (Some(nodes), Some(keyspace)) = (arguments.next(), arguments.next()) else {
        return Err("bare_driver <nodes> <keyspace>".into());
    };
    let pages = Arc::new(Pages::of(&nodes, &keyspace).await?);
    if arguments.next().is_some_and(|argument| argument == "rows") {
        println!("{} bytes of texts", pages.read_rows(&keyspace).await?);
        return Ok(());
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listens on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, Router::new().route("/{slug}", get(page)).with_state(pages)).await?)
}

async fn page(State(pages): State<Arc<Pages>>, Path(slug): Path<String>) -> (StatusCode, String) {
    match pages.read(&slug).await {
        Ok(Some(bytes)) => (StatusCode::OK, bytes),
        Ok(None) => (StatusCode::NOT_FOUND, String::new()),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}
