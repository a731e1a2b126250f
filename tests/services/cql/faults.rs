//! Faults that the proxy causes in requests and answers.
//!
//! Every write of a head binds its state, which no other request does.

use handbill_core::domain::slug::Slug;
use handbill_core::ports::page_store::PageStore;
use scylla_proxy::{
    Condition, Reaction, RequestOpcode, RequestReaction, RequestRule, ResponseFrame, ResponseOpcode, ResponseReaction,
    ResponseRule, example_db_errors,
};
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::server::Proxied;

/// Requests that contain `text`: inserts of texts by their content, all others by their slug.
pub(crate) fn requests_with(text: &str) -> Condition {
    let names = Condition::BodyContainsCaseSensitive(text.as_bytes().into());
    Condition::RequestOpcode(RequestOpcode::Execute).and(names)
}

/// Only the next request that contains `text`.
pub(crate) fn next_request_with(text: &str) -> Condition {
    requests_with(text).and(Condition::TrueForLimitedTimes(1))
}

/// Conditional writes of the head of `slug`.
pub(crate) fn writes_of(slug: &Slug) -> Condition {
    requests_with(slug.as_str()).and(requests_with("active").or(requests_with("deleted")))
}

/// Only the next conditional write of the head of `slug`.
pub(crate) fn next_write_of(slug: &Slug) -> Condition {
    writes_of(slug).and(Condition::TrueForLimitedTimes(1))
}

/// The next answer to a conditional write.
fn next_verdict() -> Condition {
    let is_verdict = Condition::BodyContainsCaseSensitive(b"[applied]".as_slice().into());
    Condition::ResponseOpcode(ResponseOpcode::Result).and(is_verdict).and(Condition::TrueForLimitedTimes(1))
}

impl Proxied {
    pub(crate) fn rules(&mut self, requests: Vec<RequestRule>, responses: Vec<ResponseRule>) {
        let node = &mut self.proxy.running_nodes[0];
        node.change_request_rules(Some(requests));
        node.change_response_rules(Some(responses));
    }

    /// The next write is applied, and its answer is replaced by a timeout. After that `slug` cannot be read until the rules
    /// are removed. The receiver yields at each attempt to read it.
    pub(crate) async fn apply_the_next_write_in_secret(&mut self, slug: &Slug, content: &str) -> UnboundedReceiver<()> {
        // A write need not read a head that was read just before.
        self.store.head(slug).await.unwrap();
        let secret = ResponseRule(next_verdict(), timeout_in_its_place());
        let (block, tried) = block_reads(slug, content);
        self.rules(vec![block], vec![secret]);
        tried
    }

    /// The next write of the head of `slug` is dropped and answered by a timeout. After that `slug` cannot be read,
    /// and the receiver yields, as with `apply_the_next_write_in_secret`.
    pub(crate) async fn swallow_the_next_write(&mut self, slug: &Slug, content: &str) -> UnboundedReceiver<()> {
        self.store.head(slug).await.unwrap();
        let timeout = RequestReaction::forge_with_error(paxos_timeout());
        let (block, tried) = block_reads(slug, content);
        self.rules(vec![RequestRule(next_write_of(slug), timeout), block], Vec::new());
        tried
    }

    /// No answer that has both of these texts arrives, which is told each time.
    pub(crate) fn refuse_to_show_together(
        &mut self,
        one: &str,
        other: &str,
        tell: UnboundedSender<(ResponseFrame, Option<u16>)>,
    ) {
        let shows = |text: &str| Condition::BodyContainsCaseSensitive(text.as_bytes().into());
        let together = Condition::ResponseOpcode(ResponseOpcode::Result).and(shows(one)).and(shows(other));
        let refuse = timeout_in_its_place().with_feedback_when_performed(tell);
        self.rules(Vec::new(), vec![ResponseRule(together, refuse)]);
    }

    /// Nodes fail in place of each answer that has `text`.
    pub(crate) fn cannot_read(&mut self, text: &str) {
        let has = Condition::BodyContainsCaseSensitive(text.as_bytes().into());
        let fail = error_in_its_place(example_db_errors::read_failure());
        self.rules(Vec::new(), vec![ResponseRule(Condition::ResponseOpcode(ResponseOpcode::Result).and(has), fail)]);
    }

    /// Lets everything through.
    pub(crate) fn be_honest(&mut self) {
        self.proxy.turn_off_rules();
    }

    /// The answer to the next write is lost.
    pub(crate) fn lose_the_next_verdict(&mut self) {
        self.rules(Vec::new(), vec![ResponseRule(next_verdict(), ResponseReaction::drop_frame())]);
    }

    /// The next write is applied and answered by a timeout.
    pub(crate) fn deny_the_next_verdict(&mut self) {
        self.rules(Vec::new(), vec![ResponseRule(next_verdict(), timeout_in_its_place())]);
    }

    /// The connection breaks instead of the answer to the next write.
    pub(crate) fn break_the_connection_at_the_next_verdict(&mut self) {
        self.rules(Vec::new(), vec![ResponseRule(next_verdict(), ResponseReaction::drop_connection())]);
    }
}

pub(crate) use scylla::errors::{DbError, WriteType};

/// Cassandra's answer after a round that took too long.
pub(crate) fn paxos_timeout() -> DbError {
    DbError::WriteTimeout {
        consistency: scylla::statement::Consistency::LocalSerial,
        received: 1,
        required: 2,
        write_type: WriteType::Cas,
    }
}

fn timeout_in_its_place() -> ResponseReaction {
    error_in_its_place(paxos_timeout())
}

fn error_in_its_place(error: DbError) -> ResponseReaction {
    ResponseReaction::transform_frame(Arc::new(move |frame: ResponseFrame| {
        ResponseFrame::forged_error(frame.params, error.clone(), None).unwrap()
    }))
}

/// Reads of `slug` fail. They are the requests that write no head and do not contain `content`.
fn block_reads(slug: &Slug, content: &str) -> (RequestRule, UnboundedReceiver<()>) {
    let (tell, tried) = unbounded_channel();
    let other = Condition::not(requests_with(content)).and(Condition::not(writes_of(slug)));
    let reads = requests_with(slug.as_str()).and(other);
    let forge = RequestReaction::forge_response(Arc::new(move |frame| {
        // Sending fails once the test has stopped listening.
        let _ = tell.send(());
        ResponseFrame::forged_error(frame.params, example_db_errors::read_timeout(), None).unwrap()
    }));
    (RequestRule(reads, forge), tried)
}
