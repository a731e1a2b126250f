//! The start in a cluster of several datacentres.

use handbill_core::ports::random::Random;
use handbill_store_cql::{ConnectError, CqlSettings, CqlStore, CqlTimeouts, MigrateError, SettingsError, migrate};

use super::ring::{EAST, Ring, WEST};

#[tokio::test(flavor = "multi_thread")]
async fn with_two_datacentres_nothing_starts_until_one_is_named() {
    let ring = Ring::start().await;
    let unnamed = CqlSettings { datacenter: None, ..ring.settings(WEST) };
    let refused = migrate(&unnamed, &Random::System).await.unwrap_err();
    assert!(matches!(refused, MigrateError::Settings(SettingsError::ChooseDatacenter { .. })), "{refused}");
    let connecting = CqlStore::connect(&unnamed, CqlTimeouts::default(), Random::System, |_| {});
    let refused = connecting.await.err().unwrap();
    assert!(matches!(refused, ConnectError::Settings(SettingsError::ChooseDatacenter { .. })), "{refused}");

    let said = ring.command("migrate", &[]).await;
    assert_eq!(said.code, Some(2), "{said:?}");
    let names_all = ["--scylla-datacenter", WEST, EAST].iter().all(|name| said.errors.contains(name));
    assert!(names_all && said.errors.lines().count() == 1, "{said:?}");
    let redis = ["--redis-url", "redis://127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let said = ring.command("serve", &[&redis[..], &["--log", "off"]].concat()).await;
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.errors.contains("--scylla-datacenter"), "{said:?}");
}
