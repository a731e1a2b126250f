//! The server under test: its address, a keyspace on it, and stores on that, directly or through a proxy that can lie.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use handbill_pages::ports::clock::SystemClock;
use handbill_pages::ports::random::Random;
use handbill_pages::values::hex;
use handbill_store_scylla::schema::{MIGRATIONS, Migration};
use handbill_store_scylla::{
    LOCK_WAIT, Limits, ScyllaConsistency, ScyllaSettings, ScyllaStore, builder, migrate, migrate_with,
};
use handbill_test_support::environment::{self, TEST_TIMEOUT, from_the_runner};
use scylla::client::session::Session;
use scylla::statement::Statement;
use scylla_proxy::{Node, Proxy, RunningProxy, ShardAwareness};
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use crate::deployment::Addresses;

/// The keyspace that all tests of pages share; each test has its own slugs. Its name depends on the migrations, because
/// an earlier version of these tests may have used the server.
static KEYSPACE: LazyLock<String> = LazyLock::new(|| {
    // A keyspace has a name of at most 48 characters, however many migrations there are.
    let checksums: String = MIGRATIONS.iter().map(Migration::checksum).collect();
    format!("handbill_tests_{}", &hex::encode(&Sha256::digest(checksums))[..16])
});

/// Enough time on any machine, so that a test fails only by its own subject.
pub(crate) const PATIENT: Limits = Limits {
    operation: TEST_TIMEOUT,
    attempt: Duration::from_mins(1),
    permit: Duration::from_mins(1),
    reads: 256,
    writes: 256,
    ranges: 1,
};

pub(crate) fn nodes() -> String {
    from_the_runner("HANDBILL_TEST_CQL")
}

/// The login that the server wants; empty if it wants none.
pub(crate) fn login() -> Vec<String> {
    let files = environment::variable("HANDBILL_TEST_CQL_FILES");
    let option = |files| ["--scylla-username=cassandra".to_owned(), format!("--scylla-password-file={files}/password")];
    files.into_iter().flat_map(option).collect()
}

pub(crate) fn settings(keyspace: &str, args: &[&str]) -> ScyllaSettings {
    let nodes = nodes();
    let copies = u8::try_from(nodes.split(',').count().min(3)).unwrap();
    let (login, server) = (login(), ["--scylla-nodes", &nodes, "--scylla-keyspace", keyspace]);
    let args: Vec<_> = server.into_iter().chain(login.iter().map(String::as_str)).chain(args.iter().copied()).collect();
    let settings = environment::settings::<handbill::settings::ScyllaSettings>(&args).store();
    ScyllaSettings { replication_factor: copies, ..settings }
}

pub(crate) async fn session() -> Arc<Session> {
    // The driver waits longer for a busy server than a service would.
    let builder = builder(&settings(&KEYSPACE, &[])).unwrap().connection_timeout(Duration::from_secs(30));
    Arc::new(builder.keepalive_timeout(Duration::from_secs(30)).build().await.expect("the server is there"))
}

pub(crate) fn datacenter(session: &Session) -> String {
    session.get_cluster_state().get_nodes_info()[0].datacenter.clone().unwrap()
}

/// A keyspace that no other test and no earlier run of this one uses.
pub(crate) fn fresh_keyspace() -> String {
    let letters = (0..12).map(|_| char::from(b'a' + u8::try_from(Random::System.indices().below(26)).unwrap()));
    format!("handbill_test_{}", letters.collect::<String>())
}

/// A session, and the settings of a keyspace that is not there yet.
pub(crate) async fn fresh() -> (Arc<Session>, ScyllaSettings) {
    (session().await, settings(&fresh_keyspace(), &[]))
}

/// Changes the schema, with enough time on any machine.
pub(crate) async fn change_schema(session: &Session, cql: impl Into<String>) {
    let mut statement = Statement::new(cql);
    statement.set_request_timeout(Some(Duration::from_mins(2)));
    session.query_unpaged(statement, ()).await.unwrap();
}

/// The settings of a keyspace of its own, which is up to date and empty.
pub(crate) async fn migrated_settings() -> ScyllaSettings {
    let settings = settings(&fresh_keyspace(), &[]);
    migrate(&settings, &Random::System).await.unwrap();
    settings
}

pub(crate) fn unconnected(limits: Limits) -> ScyllaStore {
    ScyllaStore::new(limits, Random::System, Arc::new(SystemClock::new()))
}

pub(crate) async fn connected(settings: &ScyllaSettings) -> ScyllaStore {
    let store = unconnected(PATIENT);
    store.connect(settings, |_| {}).await.unwrap();
    store
}

/// A store in a keyspace of its own, a session, and the keyspace.
pub(crate) async fn fresh_store() -> (Arc<ScyllaStore>, Arc<Session>, String) {
    let settings = migrated_settings().await;
    (Arc::new(connected(&settings).await), session().await, settings.keyspace)
}

pub(crate) async fn drop_keyspace(session: &Session, keyspace: &str) {
    change_schema(session, format!("DROP KEYSPACE IF EXISTS {keyspace}")).await;
}

/// The shared keyspace, migrated once in each run.
pub(crate) async fn migrated_keyspace() -> &'static str {
    static MIGRATED: OnceCell<()> = OnceCell::const_new();
    let migrated = MIGRATED.get_or_init(async || {
        let (session, settings) = (session().await, settings(&KEYSPACE, &[]));
        let datacenter = datacenter(&session);
        migrate_with(&session, &settings, Some(&datacenter), MIGRATIONS, LOCK_WAIT, &Random::System).await.unwrap();
    });
    migrated.await;
    &KEYSPACE
}

pub(crate) async fn store() -> Arc<ScyllaStore> {
    store_in(session().await, migrated_keyspace().await, PATIENT).await
}

/// A store on `session` in `keyspace`, which was migrated.
pub(crate) async fn store_in(session: Arc<Session>, keyspace: &str, limits: Limits) -> Arc<ScyllaStore> {
    let store = unconnected(limits);
    store.prepare(session, keyspace, ScyllaConsistency::Local).await.unwrap();
    Arc::new(store)
}

pub(crate) struct Proxied {
    pub(crate) store: Arc<ScyllaStore>,
    pub(crate) proxy: RunningProxy,
}

/// A store with `limits` behind a proxy without rules.
pub(crate) async fn proxied(limits: Limits) -> Proxied {
    let keyspace = migrated_keyspace().await;
    let settings = settings(keyspace, &[]);
    let (session, proxy) = proxied_session(&settings).await;
    Proxied { store: store_in(session, keyspace, limits).await, proxy }
}

/// A session with the first node of `settings` behind a proxy without rules.
pub(crate) async fn proxied_session(settings: &ScyllaSettings) -> (Arc<Session>, RunningProxy) {
    let real: SocketAddr = tokio::net::lookup_host(settings.nodes[0].as_str()).await.unwrap().next().unwrap();
    let proxied = Addresses::draw().proxy(real.port());
    let node = Node::builder().real_address(real).proxy_address(proxied);
    let settings = ScyllaSettings { nodes: vec![proxied.to_string()], ..settings.clone() };
    let proxy = Proxy::new([node.shard_awareness(ShardAwareness::Unaware).build()]);
    let translator = Arc::new(proxy.translation_map());
    let proxy = proxy.run().await.unwrap();
    let builder = builder(&settings).unwrap().address_translator(translator).disallow_shard_aware_port(true);
    let builder = builder.connection_timeout(Duration::from_secs(30)).keepalive_timeout(Duration::from_secs(30));
    (Arc::new(builder.build().await.expect("the server is there")), proxy)
}
