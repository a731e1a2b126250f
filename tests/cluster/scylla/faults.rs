//! Faults that the proxy causes in requests and answers.
//!
//! Every write of a page binds its state, which no other request does.

use handbill_pages::values::slug::Slug;
use scylla_proxy::{
    Condition, Reaction, RequestOpcode, RequestReaction, RequestRule, ResponseFrame, ResponseOpcode, ResponseReaction,
    ResponseRule,
};
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::server::Proxied;

pub(crate) fn requests_with(text: &str) -> Condition {
    let names = Condition::BodyContainsCaseSensitive(text.as_bytes().into());
    Condition::RequestOpcode(RequestOpcode::Execute).and(names)
}

pub(crate) fn writes_of(slug: &Slug) -> Condition {
    requests_with(slug.as_str()).and(requests_with("active").or(requests_with("deleted")))
}

pub(crate) fn next_write_of(slug: &Slug) -> Condition {
    writes_of(slug).and(Condition::TrueForLimitedTimes(1))
}

/// The next answer to a conditional write.
fn next_verdict() -> Condition {
    let is_verdict = Condition::BodyContainsCaseSensitive(b"[applied]".as_slice().into());
    Condition::ResponseOpcode(ResponseOpcode::Result).and(is_verdict).and(Condition::TrueForLimitedTimes(1))
}

/// The first bytes of a packed text.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

impl Proxied {
    pub(crate) fn rules(&mut self, requests: Vec<RequestRule>, responses: Vec<ResponseRule>) {
        let node = &mut self.proxy.running_nodes[0];
        node.change_request_rules(Some(requests));
        node.change_response_rules(Some(responses));
    }

    /// The next write of `slug` is applied, and its answer is replaced by a timeout. Every later one is dropped and answered by a timeout
    /// until the rules are removed. The receiver yields at each of these.
    pub(crate) fn apply_the_next_write_in_secret(&mut self, slug: &Slug) -> UnboundedReceiver<()> {
        let (block, tried) = block_writes(slug);
        let first = RequestRule(next_write_of(slug), RequestReaction::noop());
        self.rules(vec![first, block], vec![ResponseRule(next_verdict(), timeout_in_its_place())]);
        tried
    }

    /// The next write of `slug` and every later one is dropped and answered by a timeout. The receiver yields at each but the first.
    pub(crate) fn swallow_the_next_write(&mut self, slug: &Slug) -> UnboundedReceiver<()> {
        let (block, tried) = block_writes(slug);
        let first = RequestRule(next_write_of(slug), RequestReaction::forge_with_error(paxos_timeout()));
        self.rules(vec![first, block], Vec::new());
        tried
    }

    /// The next answer that has a text shows an earlier one under the same head, as a copy does that a repair of the head alone has left.
    pub(crate) fn tear_the_next_text(&mut self) {
        let is_text = Condition::ResponseOpcode(ResponseOpcode::Result)
            .and(Condition::BodyContainsCaseSensitive(ZSTD.as_slice().into()))
            .and(Condition::TrueForLimitedTimes(1));
        let torn = ResponseReaction::transform_frame(Arc::new(|frame: ResponseFrame| {
            let mut body = frame.body.to_vec();
            let packed = body.windows(ZSTD.len()).position(|bytes| bytes == ZSTD).unwrap();
            // The last byte of the revision, before the length of the blob (4 bytes) and of the text (4 bytes).
            body[packed - 9] -= 1;
            ResponseFrame { body: body.into(), ..frame }
        }));
        self.rules(Vec::new(), vec![ResponseRule(is_text, torn)]);
    }

    pub(crate) fn be_honest(&mut self) {
        self.proxy.turn_off_rules();
    }

    pub(crate) fn lose_the_next_verdict(&mut self) {
        self.rules(Vec::new(), vec![ResponseRule(next_verdict(), ResponseReaction::drop_frame())]);
    }

    /// The next write is applied and answered by a timeout.
    pub(crate) fn deny_the_next_verdict(&mut self) {
        self.rules(Vec::new(), vec![ResponseRule(next_verdict(), timeout_in_its_place())]);
    }

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
    ResponseReaction::transform_frame(Arc::new(|frame: ResponseFrame| {
        ResponseFrame::forged_error(frame.params, paxos_timeout(), None).unwrap()
    }))
}

/// Writes of `slug` are dropped and answered by a timeout, which the receiver is told.
fn block_writes(slug: &Slug) -> (RequestRule, UnboundedReceiver<()>) {
    let (tell, tried) = unbounded_channel();
    let forge = RequestReaction::forge_response(Arc::new(move |frame| {
        // Sending fails once the test has stopped listening.
        let _ = tell.send(());
        ResponseFrame::forged_error(frame.params, paxos_timeout(), None).unwrap()
    }));
    (RequestRule(writes_of(slug), forge), tried)
}
