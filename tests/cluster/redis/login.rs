//! TLS and login, their failures, and passwords that change.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use handbill_pages::ports::rate_limiter::RateLimiter;
use handbill_pages::values::slug::{Reservation, Reserved};
use handbill_rate_limit::{RedisSettings, RedisUrl};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use redis::{Client, FromRedisValue, TlsCertificates};
use tempfile::TempDir;

use super::faults::{SHORT, come_back};
use super::reservations::reservation;
use super::servers::{OwnServer, PATIENT, Replica, client, to};

/// A server with TLS, a user `handbill` with just the rights that the service needs, and a user `admin` for the test.
struct Guarded {
    server: OwnServer,
    files: TempDir,
}

impl Guarded {
    fn start() -> Self {
        let files = tempfile::tempdir().unwrap();
        let (authority, key) = authority();
        fs::write(files.path().join("ca.pem"), &authority.1).unwrap();
        fs::write(files.path().join("other-ca.pem"), self::authority().0.1).unwrap();
        fs::write(files.path().join("password"), "correcthorse\n").unwrap();
        fs::write(files.path().join("wrong-password"), "batterystaple\n").unwrap();

        let issuer = Issuer::new(authority.0, key);
        let server_key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().signed_by(&server_key, &issuer).unwrap();
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("server.pem"), certificate.pem()).unwrap();
        fs::write(directory.path().join("server.key"), server_key.serialize_pem()).unwrap();
        fs::write(
            directory.path().join("users"),
            "user default off\nuser admin on >opensesame ~* &* +@all\nuser handbill on >correcthorse ~handbill:* +@connection +evalsha +script|load +time \
             +zadd +zcard +zcount +zrange +zrangebyscore +zremrangebyrank +zscore +pexpire +set\n",
        )
        .unwrap();
        let server = OwnServer::start_in(
            directory,
            &[
                "--port",
                "0",
                "--tls-port",
                "{port}",
                "--tls-auth-clients",
                "no",
                "--tls-cert-file",
                "{dir}/server.pem",
                "--tls-key-file",
                "{dir}/server.key",
                "--tls-ca-cert-file",
                "{dir}/server.pem",
                "--aclfile",
                "{dir}/users",
            ],
        );
        Self { server, files }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    async fn administer<T: FromRedisValue>(&self, command: &[&str]) -> T {
        let trusted = TlsCertificates { client_tls: None, root_cert: Some(fs::read(self.file("ca.pem")).unwrap()) };
        let address = format!("rediss://admin:opensesame@127.0.0.1:{}", self.server.port);
        let client = Client::build_with_tls(address, trusted).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        redis::cmd(command[0]).arg(&command[1..]).query_async(&mut connection).await.unwrap()
    }

    async fn connected_replica(&self, timeout: Duration) -> Replica {
        let replica = Replica::start(&self.settings(), timeout);
        // The replica connects meanwhile, so this loop ends.
        while !self.administer::<String>(&["CLIENT", "LIST"]).await.contains(" user=handbill ") {}
        replica.check(client()).await;
        assert!(!replica.decided_alone());
        replica
    }

    /// Gives the user `handbill` another password and closes its connections.
    async fn change_password(&self, password: &str) {
        self.administer::<()>(&["ACL", "SETUSER", "handbill", "resetpass", &format!(">{password}")]).await;
        assert!(self.administer::<u32>(&["CLIENT", "KILL", "USER", "handbill"]).await > 0);
    }

    fn settings(&self) -> RedisSettings {
        RedisSettings {
            username: Some("handbill".to_owned()),
            password_file: Some(self.file("password")),
            ca_file: Some(self.file("ca.pem")),
            ..to(&format!("rediss://127.0.0.1:{}", self.server.port))
        }
    }
}

fn authority() -> ((CertificateParams, String), KeyPair) {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = parameters.self_signed(&key).unwrap().pem();
    ((parameters, certificate), key)
}

async fn is_reached(settings: &RedisSettings) -> bool {
    let replica = Replica::start(settings, PATIENT);
    assert!(replica.check(client()).await.admitted);
    !replica.decided_alone()
}

#[tokio::test]
async fn a_server_is_reached_with_the_right_authority_and_login_alone() {
    let guarded = Guarded::start();
    let right = guarded.settings();
    assert!(is_reached(&right).await);
    let in_address = format!("rediss://handbill:correcthorse@127.0.0.1:{}", guarded.server.port);
    assert!(is_reached(&RedisSettings { ca_file: Some(guarded.file("ca.pem")), ..to(&in_address) }).await);

    for (what, wrong) in [
        ("another authority", RedisSettings { ca_file: Some(guarded.file("other-ca.pem")), ..right.clone() }),
        ("the system's authorities", RedisSettings { ca_file: None, ..right.clone() }),
        ("a wrong password", RedisSettings { password_file: Some(guarded.file("wrong-password")), ..right.clone() }),
        ("a wrong name", RedisSettings { username: Some("other".to_owned()), ..right.clone() }),
        (
            "a name that is not in the certificate",
            RedisSettings {
                urls: vec![RedisUrl(format!("rediss://localhost:{}", guarded.server.port))],
                ..right.clone()
            },
        ),
        ("no TLS", RedisSettings { urls: vec![RedisUrl(guarded.server.address())], ca_file: None, ..right.clone() }),
    ] {
        assert!(!is_reached(&wrong).await, "{what}");
    }
}

#[tokio::test]
async fn a_login_with_the_listed_rights_alone_keeps_its_connections() {
    let guarded = Guarded::start();
    let replica = guarded.connected_replica(PATIENT).await;
    let connections = async || {
        let stats: String = guarded.administer(&["INFO", "stats"]).await;
        let (_, count) = stats.split_once("total_connections_received:").unwrap();
        count.lines().next().unwrap().parse::<u32>().unwrap()
    };
    let before = connections().await;
    for number in 0..20 {
        let reservation = reservation(&format!("{number}"));
        replica.check(client()).await;
        assert_eq!(replica.limiter.reserve(&reservation).await, Reserved::Unopposed);
        let another = Reservation { owner: "another".to_owned(), ..reservation };
        assert_eq!(replica.limiter.reserve(&another).await, Reserved::ByAnother);
    }
    assert_eq!(connections().await, before + 1, "the test's own");
}

#[tokio::test]
async fn a_replica_returns_once_its_file_has_the_new_password() {
    let guarded = Guarded::start();
    let mut replica = guarded.connected_replica(SHORT).await;
    guarded.change_password("staple").await;
    while !replica.has_lost_redis() {
        replica.check(client()).await;
    }
    fs::write(guarded.file("password"), "staple\n").unwrap();
    come_back(&mut replica).await;
}
