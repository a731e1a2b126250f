//! Every key that is used in Redis. The part in braces decides the slot in a Redis Cluster.

use crate::domain::client::Client;
use crate::domain::slug::Slug;
use crate::ports::rate_limiter::LimitKind;

/// The window of `client`.
pub(super) fn window(limited: LimitKind, client: Client) -> String {
    format!("handbill:limit:{{{}:{client}}}", limited.name())
}

/// The reservation of `slug`.
pub(super) fn reservation(slug: &Slug) -> String {
    format!("handbill:reservation:{{{slug}}}")
}

/// The key that the process called `name` writes to see whether Redis takes writes.
pub(super) fn probe(name: &str) -> String {
    format!("handbill:probe:{{{name}}}")
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn a_window_s_key_names_the_limit_and_the_client_as_its_hash_tag() {
        let client = |address: &str| Client::from(address.parse::<IpAddr>().unwrap());
        assert_eq!(window(LimitKind::Create, client("192.0.2.7")), "handbill:limit:{create:192.0.2.7}");
        assert_eq!(window(LimitKind::Edit, client("2001:db8::1")), "handbill:limit:{edit:2001:db8::/64}");
    }
}
