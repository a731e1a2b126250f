//! Guarantees across replicas while nothing is wrong.

use std::net::Ipv4Addr;

use futures_util::future::join_all;

use super::calls::create;
use super::service::{Service, Settings};

#[tokio::test(flavor = "multi_thread")]
async fn each_client_has_one_quota_over_all_replicas() {
    let service = Service::start(Settings { create_limit: 10, ..Settings::unlimited() }).await;
    let clients = [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3)];
    let attempts = (0..100).flat_map(|_| clients).map(|client| {
        let balancer = service.balancer;
        tokio::spawn(async move { (client, create(balancer, client).await) })
    });
    let replies: Vec<_> = join_all(attempts).await.into_iter().map(Result::unwrap).collect();
    for client in clients {
        let of_client = replies.iter().filter(|(of, _)| *of == client).map(|(_, reply)| reply);
        let (refused, admitted): (Vec<_>, Vec<_>) = of_client.partition(|reply| reply.status == 429);
        assert_eq!(admitted.len(), 10, "{client}");
        for reply in refused {
            assert!(reply.retry_after.is_some_and(|seconds| seconds > 0), "{reply:?}");
        }
    }
}
