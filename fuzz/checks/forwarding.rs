//! The address that the trusted proxy appends is taken as the client's, whatever the client wrote into a forwarding
//! header.

use std::net::{IpAddr, Ipv4Addr};

use handbill::api::request::client_addr::TrustedProxies;
use handbill_core::domain::client::ForwardedHeader;
use http::{HeaderMap, HeaderValue};

/// The trusted proxy. The trusted networks contain no other address.
const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

/// The client that called the proxy.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7));

/// Each line of `input` is one line of the header, as the client sent it.
pub(crate) fn check(input: &[u8]) {
    let lines: Vec<HeaderValue> =
        input.split(|&byte| byte == b'\n').filter_map(|line| HeaderValue::from_bytes(line).ok()).collect();
    for header in [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded] {
        let proxies = TrustedProxies { networks: vec![PROXY.into()], header };
        let named: HeaderMap = lines.iter().map(|line| (header_name(header), line.clone())).collect();
        assert_eq!(proxies.client_address(CLIENT, &named), CLIENT, "the peer is no trusted proxy");
        let unappended = proxies.client_address(PROXY, &named);
        assert_eq!(unappended, unappended.to_canonical());

        let appended = match header {
            ForwardedHeader::XForwardedFor => CLIENT.to_string(),
            ForwardedHeader::Forwarded => format!("for={CLIENT}"),
        };
        // A proxy adds a header line of its own, or appends to the last line.
        let mut own_line = named.clone();
        own_line.append(header_name(header), value(appended.as_bytes()));
        assert_eq!(proxies.client_address(PROXY, &own_line), CLIENT, "{header:?} {lines:?} and a line of its own");
        let Some((last, before)) = lines.split_last() else { continue };
        let joined = value(&[last.as_bytes(), b", ", appended.as_bytes()].concat());
        let same_line: HeaderMap =
            before.iter().chain([&joined]).map(|line| (header_name(header), line.clone())).collect();
        assert_eq!(proxies.client_address(PROXY, &same_line), CLIENT, "{header:?} {lines:?} in the same line");
    }
}

fn header_name(header: ForwardedHeader) -> http::HeaderName {
    http::HeaderName::from_static(header.name())
}

fn value(bytes: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(bytes).expect("a part of it was one, and the rest is plain")
}
