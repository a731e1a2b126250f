//! The keys of all heads and texts, page by page in the order of the ring: what no page shows, and what a page lacks. No text is
//! read.
//!
//! The two tables have the same order, so their rows are merged as they come. They are read one after the other, so whoever finds
//! something by these keys reads the page again before it acts.

use futures_util::TryStreamExt;
use scylla::DeserializeRow;
use scylla::client::pager::TypedRowStream;
use scylla::client::session::Session;
use scylla::errors::PrepareError;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, Statement};
use scylla::value::CqlTimestamp;

use super::migrate::schema::server_of;
use super::nonces::TextId;
use super::ring::{Placed, Tokens, of_scan};
use crate::domain::page::PageVersion;
use crate::domain::timestamp::UnixMillis;
use crate::ports::page_store::Cause;

/// Keys that one page of a result holds.
const PAGE_ROWS: i32 = 500;

#[derive(DeserializeRow)]
struct HeadKey {
    current_text_version: Option<i64>,
    current_text_nonce: Option<Vec<u8>>,
}

#[derive(DeserializeRow)]
struct TextKey {
    text_version: i64,
    text_nonce: Vec<u8>,
    inserted_at: Option<CqlTimestamp>,
    /// The database's timestamp of the text, in microseconds, which is made from the time of its page.
    written_at: Option<i64>,
}

/// The keys under one slug.
pub(super) struct PageKeys {
    pub(super) slug: String,
    head: Option<HeadKey>,
    texts: Vec<TextKey>,
}

impl HeadKey {
    fn names(&self, text: &TextKey) -> bool {
        self.current_text_version == Some(text.text_version)
            && self.current_text_nonce.as_ref() == Some(&text.text_nonce)
    }
}

impl PageKeys {
    pub(super) fn count(&self) -> u32 {
        u32::from(self.head.is_some()).saturating_add(u32::try_from(self.texts.len()).unwrap_or(u32::MAX))
    }

    /// Whether the text that the head names is there. The head of a deleted page names none.
    pub(super) fn is_whole(&self) -> bool {
        self.head.as_ref().is_none_or(|head| {
            let names_none = head.current_text_nonce.as_ref().is_none_or(Vec::is_empty);
            names_none || self.texts.iter().any(|text| head.names(text))
        })
    }

    /// The texts that the head does not name and that were inserted before `inserted_before`, each with its timestamp.
    pub(super) fn suspects(&self, inserted_before: UnixMillis) -> Vec<(TextId, i64)> {
        let is_named = |text: &TextKey| self.head.as_ref().is_some_and(|head| head.names(text));
        let suspect = |text: &TextKey| {
            let nonce = text.text_nonce.clone().try_into().ok()?;
            let id = TextId { version: PageVersion::new(text.text_version.cast_unsigned()), nonce };
            let CqlTimestamp(inserted_at) = text.inserted_at?;
            (inserted_at < inserted_before.get()).then_some((id, text.written_at?))
        };
        self.texts.iter().filter(|text| !is_named(text)).filter_map(suspect).collect()
    }
}

/// The statements that read the keys of one part of the ring.
pub(super) struct ReadKeys {
    heads: PreparedStatement,
    texts: PreparedStatement,
}

impl ReadKeys {
    pub(super) async fn prepare(session: &Session, keyspace: &str) -> Result<Self, PrepareError> {
        let prepare = async |columns: &str, table: &str| {
            let cql = format!(
                "SELECT token(slug) AS place, slug, {columns} FROM {keyspace}.{table} \
                 WHERE token(slug) > ? AND token(slug) <= ?"
            );
            let cql = of_scan(cql, server_of(session));
            let mut statement = session.prepare(Statement::new(cql).with_page_size(PAGE_ROWS)).await?;
            statement.set_consistency(Consistency::LocalQuorum);
            statement.set_is_idempotent(true);
            Ok::<_, PrepareError>(statement)
        };
        let texts = "text_version, text_nonce, inserted_at, writetime(html) AS written_at";
        Ok(Self {
            heads: prepare("current_text_version, current_text_nonce", "pages").await?,
            texts: prepare(texts, "texts").await?,
        })
    }

    pub(super) async fn between(&self, session: &Session, tokens: Tokens) -> Result<PartKeys, Cause> {
        let heads = session.execute_iter(self.heads.clone(), tokens).await?.rows_stream::<Placed<HeadKey>>()?;
        let texts = session.execute_iter(self.texts.clone(), tokens).await?.rows_stream::<Placed<TextKey>>()?;
        let mut part = PartKeys { heads, texts, head: None, text: None };
        part.head = part.heads.try_next().await?;
        part.text = part.texts.try_next().await?;
        Ok(part)
    }
}

/// The keys of one part of the ring that were not returned yet.
pub(super) struct PartKeys {
    heads: TypedRowStream<Placed<HeadKey>>,
    texts: TypedRowStream<Placed<TextKey>>,
    /// The next row of each.
    head: Option<Placed<HeadKey>>,
    text: Option<Placed<TextKey>>,
}

impl PartKeys {
    /// The keys under the next slug.
    pub(super) async fn next(&mut self) -> Result<Option<PageKeys>, Cause> {
        let of_head = self.head.as_ref().map(|head| (head.place, &head.slug));
        let of_text = self.text.as_ref().map(|text| (text.place, &text.slug));
        let Some((place, slug)) = of_head.into_iter().chain(of_text).min() else { return Ok(None) };
        let mut page = PageKeys { slug: slug.clone(), head: None, texts: Vec::new() };
        if let Some(head) = self.head.take_if(|head| (head.place, &head.slug) == (place, &page.slug)) {
            page.head = Some(head.row);
            self.head = self.heads.try_next().await?;
        }
        while let Some(text) = self.text.take_if(|text| (text.place, &text.slug) == (place, &page.slug)) {
            page.texts.push(text.row);
            self.text = self.texts.try_next().await?;
        }
        Ok(Some(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(nonce: u8) -> TextKey {
        TextKey {
            text_version: 2,
            text_nonce: vec![nonce; 16],
            inserted_at: Some(CqlTimestamp(1000)),
            written_at: Some(5),
        }
    }

    /// A page whose head names the text with this version and nonce.
    fn page(current: Option<(i64, u8)>, texts: Vec<TextKey>) -> PageKeys {
        let head = current.map(|(version, nonce)| HeadKey {
            current_text_version: Some(version),
            current_text_nonce: Some(vec![nonce; 16]),
        });
        PageKeys { slug: "page-22222222".to_owned(), head, texts }
    }

    #[test]
    fn a_text_is_suspected_if_it_is_old_and_its_head_names_another_or_none() {
        let suspects = |current, before| page(current, vec![text(7)]).suspects(UnixMillis::new(before)).len();
        assert_eq!(suspects(Some((2, 7)), 2000), 0);
        for other in [None, Some((2, 8)), Some((3, 7))] {
            assert_eq!(suspects(other, 2000), 1, "{other:?}");
            assert_eq!(suspects(other, 1000), 0, "{other:?}: it is young");
        }
        assert_eq!(page(Some((2, 7)), vec![text(8), text(7), text(6)]).suspects(UnixMillis::new(2000)).len(), 2);
    }

    #[test]
    fn a_page_is_whole_if_the_text_that_its_head_names_is_there() {
        assert!(page(Some((2, 7)), vec![text(8), text(7)]).is_whole());
        assert!(page(None, vec![text(8)]).is_whole(), "it has no head that could lack it");
        for texts in [vec![], vec![text(8)]] {
            assert!(!page(Some((2, 7)), texts).is_whole());
        }
        let mut tombstone = page(Some((2, 7)), vec![]);
        tombstone.head.as_mut().unwrap().current_text_nonce = Some(Vec::new());
        assert!(tombstone.is_whole());
    }
}
