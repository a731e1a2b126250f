//! The server under test: its address, a keyspace on it, and stores on that, directly or through a proxy that can lie.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use handbill::config;
use handbill_core::domain::hex;
use handbill_core::ports::random::{Random, index_below};
use handbill_store_cql::migrate::schema::{MIGRATIONS, Migration};
use handbill_store_cql::{CqlSettings, CqlStore, CqlTimeouts, LeaseTimes, builder, migrate, migrate_with};
use scylla::client::session::Session;
use scylla::statement::Statement;
use scylla_proxy::{Node, Proxy, RunningProxy, ShardAwareness};
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

use crate::deployment::Addresses;
use crate::environment::{self, TEST_TIMEOUT, from_the_runner};

/// The keyspace that all tests of pages share; each test has its own slugs. Its name depends on the migrations, because
/// an earlier version of these tests may have used the server.
static KEYSPACE: LazyLock<String> = LazyLock::new(|| {
    // A keyspace has a name of at most 48 characters, however many migrations there are.
    let checksums: String = MIGRATIONS.iter().map(Migration::checksum).collect();
    format!("handbill_tests_{}", &hex::encode(&Sha256::digest(checksums))[..16])
});

/// Enough time on any machine, so that a test fails only by its own subject.
pub(crate) const PATIENT: CqlTimeouts = CqlTimeouts {
    operation: TEST_TIMEOUT,
    attempt: Duration::from_mins(1),
    permit: Duration::from_mins(1),
    in_flight: 256,
    share_percent: 100,
    refuses_silent: false,
};

/// The nodes of the server, as `host:port,…`; one node is enough.
pub(crate) fn nodes() -> String {
    from_the_runner("HANDBILL_TEST_CQL")
}

/// The settings with `args` and the server's nodes.
pub(crate) fn settings(keyspace: &str, args: &[&str]) -> CqlSettings {
    let nodes = nodes();
    let copies = u8::try_from(nodes.split(',').count().min(3)).unwrap();
    let server = ["--scylla-nodes", &nodes, "--scylla-keyspace", keyspace];
    let settings = environment::settings::<config::CqlSettings>(&[&server[..], args].concat()).store();
    CqlSettings { replication_factor: copies, ..settings }
}

/// A session directly with the server.
pub(crate) async fn session() -> Arc<Session> {
    // The driver waits longer for a busy server than a service would.
    let builder = builder(&settings(&KEYSPACE, &[])).unwrap().connection_timeout(Duration::from_secs(30));
    Arc::new(builder.keepalive_timeout(Duration::from_secs(30)).build().await.expect("the server is there"))
}

/// The datacentre of the server.
pub(crate) fn datacenter(session: &Session) -> String {
    session.get_cluster_state().get_nodes_info()[0].datacenter.clone().unwrap()
}

/// A keyspace that no other test and no earlier run of this one uses.
pub(crate) fn fresh_keyspace() -> String {
    let letters = (0..12).map(|_| char::from(b'a' + u8::try_from(index_below(&Random::System, 26)).unwrap()));
    format!("handbill_test_{}", letters.collect::<String>())
}

/// Changes the schema, with enough time on any machine.
pub(crate) async fn change_schema(session: &Session, cql: impl Into<String>) {
    let mut statement = Statement::new(cql);
    statement.set_request_timeout(Some(Duration::from_mins(2)));
    session.query_unpaged(statement, ()).await.unwrap();
}

/// The settings of a keyspace of its own, which is up to date and empty.
pub(crate) async fn migrated_settings() -> CqlSettings {
    let settings = settings(&fresh_keyspace(), &[]);
    migrate(&settings, &Random::System).await.unwrap();
    settings
}

/// The store that `settings` name.
pub(crate) async fn connected(settings: &CqlSettings) -> CqlStore {
    CqlStore::connect(settings, PATIENT, Random::System, |_| {}).await.unwrap()
}

/// A store in a keyspace of its own, a session, and the keyspace.
pub(crate) async fn fresh_store() -> (Arc<CqlStore>, Arc<Session>, String) {
    let settings = migrated_settings().await;
    (Arc::new(connected(&settings).await), session().await, settings.keyspace)
}

/// Removes a keyspace of [`fresh_keyspace`].
pub(crate) async fn drop_keyspace(session: &Session, keyspace: &str) {
    change_schema(session, format!("DROP KEYSPACE IF EXISTS {keyspace}")).await;
}

/// The shared keyspace, migrated once in each run.
pub(crate) async fn migrated_keyspace() -> &'static str {
    static MIGRATED: OnceCell<()> = OnceCell::const_new();
    let migrated = MIGRATED.get_or_init(async || {
        let (session, settings) = (session().await, settings(&KEYSPACE, &[]));
        let datacenter = datacenter(&session);
        let times = LeaseTimes::default();
        migrate_with(&session, &settings, &datacenter, MIGRATIONS, times, &Random::System).await.unwrap();
    });
    migrated.await;
    &KEYSPACE
}

/// A store directly on the server.
pub(crate) async fn store() -> Arc<CqlStore> {
    store_on(session().await, PATIENT).await
}

/// A store on `session` in the shared keyspace.
pub(crate) async fn store_on(session: Arc<Session>, timeouts: CqlTimeouts) -> Arc<CqlStore> {
    let keyspace = migrated_keyspace().await;
    Arc::new(CqlStore::on(session, keyspace, Random::System, timeouts).await.unwrap())
}

/// A store on `session` in `keyspace`, which was migrated.
pub(crate) async fn store_in(session: Arc<Session>, keyspace: &str, timeouts: CqlTimeouts) -> Arc<CqlStore> {
    Arc::new(CqlStore::on(session, keyspace, Random::System, timeouts).await.unwrap())
}

/// A store that sends every request through a proxy.
pub(crate) struct Proxied {
    pub(crate) store: Arc<CqlStore>,
    pub(crate) proxy: RunningProxy,
}

/// A store with `timeouts` behind a proxy without rules.
pub(crate) async fn proxied(timeouts: CqlTimeouts) -> Proxied {
    let settings = settings(migrated_keyspace().await, &[]);
    let (session, proxy) = proxied_session(&settings, 1).await;
    Proxied { store: store_on(session, timeouts).await, proxy }
}

/// A session with the first `count` nodes of `settings`, each behind a proxy without rules.
pub(crate) async fn proxied_session(settings: &CqlSettings, count: usize) -> (Arc<Session>, RunningProxy) {
    let mut nodes = Vec::new();
    let mut settings = settings.clone();
    for address in settings.nodes.iter_mut().take(count) {
        let real: SocketAddr = tokio::net::lookup_host(address.as_str()).await.unwrap().next().unwrap();
        let proxied = Addresses::draw().proxy(real.port());
        let node = Node::builder().real_address(real).proxy_address(proxied);
        nodes.push(node.shard_awareness(ShardAwareness::Unaware).build());
        *address = proxied.to_string();
    }
    settings.nodes.truncate(count);
    let proxy = Proxy::new(nodes);
    let translator = Arc::new(proxy.translation_map());
    let proxy = proxy.run().await.unwrap();
    let builder = builder(&settings).unwrap().address_translator(translator).disallow_shard_aware_port(true);
    let builder = builder.connection_timeout(Duration::from_secs(30)).keepalive_timeout(Duration::from_secs(30));
    (Arc::new(builder.build().await.expect("the server is there")), proxy)
}
