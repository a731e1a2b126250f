//! The way in which a move is made, and why it ends early.

use std::time::Duration;

use scylla::errors::NewSessionError;
use thiserror::Error;

use crate::ports::page_store::Cause;
use crate::settings_error::SettingsError;

/// How often a change of the fence, or the copying of a part of the ring, is tried again after an error.
pub(super) const REPEATS: u32 = 5;

/// Pause before it is tried again.
pub(super) const REPEAT_PAUSE: Duration = Duration::from_secs(1);

/// Longest time for one request of the copying: a page of results has up to 34 MB, and nobody but the operator waits.
pub(super) const COPY_TIMEOUT: Duration = Duration::from_secs(30);

/// The way in which the fence is moved.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an answer of the operator")]
pub struct FailoverPlan {
    /// The datacentre that writes from then on.
    pub to: String,
    /// Whether the other datacentre is lost.
    pub is_forced: bool,
    /// Whether a forced move goes on although the other datacentre answers.
    pub allows_answers: bool,
    /// Whether all pages are read from all copies before the new side is opened.
    pub copies_pages: bool,
    /// Whether the lost datacentre may have the old Paxos.
    pub allows_unknown_paxos: bool,
}

/// Why the fence was not moved. While it is closed nobody writes, and running the command again goes on from there.
#[derive(Debug, Error)]
pub enum FailoverError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("no node is in the datacentre {name:?} of --to; there are: {found}")]
    NoSuchDatacenter { name: String, found: String },
    #[error(
        "the keyspace {keyspace} has no copies in {name}: add them first, as docs/operate-cluster.md says at \"Several datacentres\""
    )]
    NoCopies { keyspace: String, name: String },
    #[error(
        "the nodes do not agree on the schema, so a replica may not know yet that there are two datacentres: run it again once they do"
    )]
    SchemaDiffers,
    #[error("the cluster cannot be reached: {0}")]
    Session(Box<NewSessionError>),
    #[error("there is no fence in the keyspace: run `handbill migrate`")]
    Missing,
    /// The row of the fence cannot be read or written.
    #[error(
        "the fence cannot be changed ({0}): both datacentres must be up; if one is lost for good, see --force in \
         `handbill failover --help`"
    )]
    Fence(Cause),
    #[error(
        "nodes of {datacenter} have paxos_variant: {variant}, with which an unfinished write of the old side can overwrite \
         one of the new side: set v2 on all of them first"
    )]
    OldPaxos { datacenter: String, variant: String },
    #[error(
        "not all nodes of {datacenter} could be asked for their paxos_variant, and the last one on record is {recorded}: \
         start them; or, if they are lost, set v2 on them before they ever start again, and give --force-paxos-unknown"
    )]
    UnknownPaxos { datacenter: String, recorded: String },
    #[error(
        "nodes of {datacenter} answer, so it is not lost, and its replicas may write: move without --force, and with --skip-copy \
         if only some of its nodes are lost; or, if the two datacentres cannot reach each other, stop every replica of \
         {datacenter} and give --force-answers"
    )]
    Answers { datacenter: String },
    #[error("another process changed the fence meanwhile: run it again")]
    Overtaken,
    #[error("the pages were not copied ({0}). Nobody writes now: run it again, or with the old datacentre to go back")]
    Copy(Cause),
    #[error(
        "the pages were not copied ({cause}), which takes all nodes. {writing} goes on writing, and each write waits for both \
         datacentres: run it again once all nodes are up, or with --skip-copy, or with --to {writing} to give the move up"
    )]
    CopyBesideWrites { cause: Cause, writing: String },
}
