//! Heads that must not be served (RFC 9112 §3.2 and §6.1). Hyper already refuses other faults.

use http::header::{HOST, TRANSFER_ENCODING};
use http::{HeaderValue, Version, request::Parts, uri::Authority};

use super::MAX_HEAD_BYTES;
use crate::http::error::{ApiError, Code};

pub fn check(head: &Parts) -> Result<(), ApiError> {
    if is_too_large(head) {
        return Err(ApiError::headers_too_large());
    }
    let mut hosts = head.headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        // Load balancers still use HTTP/1.0, without `Host`.
        (None, _) if head.version == Version::HTTP_11 => return Err(ApiError::no_host()),
        (None, _) => {}
        (Some(host), None) if is_host(host) => {}
        (Some(_), _) => {
            let advice = "The header `Host` names no host, or is there twice. Send the host that the address names.";
            return Err(ApiError::new(Code::InvalidRequest, advice));
        }
    }
    // Hyper takes any list that ends with `chunked`, but undoes only that.
    let mut encodings = head.headers.get_all(TRANSFER_ENCODING).iter();
    match (encodings.next(), encodings.next()) {
        (None, _) => Ok(()),
        (Some(encoding), None) if encoding.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        (Some(_), _) => Err(ApiError::new(
            Code::InvalidRequest,
            "The header `Transfer-Encoding` is not exactly `chunked`. Send the body in chunks, or with its length, without any other encoding.",
        )),
    }
}

fn is_too_large(head: &Parts) -> bool {
    let target = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
    // Colon, space and line break.
    let headers: usize = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    target + headers > MAX_HEAD_BYTES
}

/// RFC 9110 §7.2.
fn is_host(value: &HeaderValue) -> bool {
    let Ok(authority) = Authority::try_from(value.as_bytes()) else { return false };
    // A name or password before the host is not part of it.
    let Some(port) = authority.as_str().strip_prefix(authority.host()) else { return false };
    port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    /// The message about a request of `version` with these headers, if it is refused.
    fn advice(version: Version, headers: &[(&str, &str)]) -> Option<String> {
        let mut request = Request::builder().version(version);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        check(&head).err().map(|error| error.message)
    }

    #[test]
    fn a_host_is_there_once_and_is_a_name_or_an_address() {
        for host in ["", "a b", "a,b c", "user@a", "a@a", "a:b", "a:1:2", "[::1", "a/b", "a?b", "a%zz"] {
            assert!(advice(Version::HTTP_11, &[("host", host)]).unwrap().contains("`Host` names no host"), "{host:?}");
        }
        for host in ["a", "A.Example:8080", "my_host", "192.0.2.1:80", "[2001:db8::1]:8443", "localhost:"] {
            assert_eq!(advice(Version::HTTP_11, &[("host", host)]), None, "{host:?}");
        }
        assert!(advice(Version::HTTP_11, &[("host", "a"), ("host", "a")]).unwrap().contains("twice"));
    }

    #[test]
    fn only_http_1_0_needs_no_host() {
        assert!(advice(Version::HTTP_11, &[]).unwrap().contains("`Host`"));
        assert_eq!(advice(Version::HTTP_10, &[]), None);
        assert!(advice(Version::HTTP_10, &[("host", "")]).is_some());
    }

    #[test]
    fn an_encoding_other_than_chunks_once_is_refused() {
        for encodings in [&["gzip, chunked"][..], &["chunked", "chunked"], &["chunked, chunked"], &[""]] {
            let headers: Vec<_> =
                [("host", "a")].into_iter().chain(encodings.iter().map(|one| ("transfer-encoding", *one))).collect();
            assert!(advice(Version::HTTP_11, &headers).unwrap().contains("`Transfer-Encoding`"), "{encodings:?}");
        }
        assert_eq!(advice(Version::HTTP_11, &[("host", "a"), ("transfer-encoding", "Chunked")]), None);
    }
}
