//! Refuses heads that a proxy in front may have understood otherwise (RFC 9112 §2.2, §3.2 and §6.3).
//!
//! This reads the bytes before hyper does, because hyper takes equal lengths for one and drops a length beside chunks.
//! Hyper refuses what is not checked here: names that are no tokens, continued lines, and everything that is no request.

use std::mem::replace;

use http::uri::Authority;
use memchr::{memchr, memchr_iter};

use crate::app::Refusal;

/// Checks `head`, whose lines all end with CR and LF.
pub(super) fn check_head(head: &[u8]) -> Result<(), Refusal> {
    let mut ends = memchr_iter(b'\n', head);
    let mut start = ends.next().map_or(head.len(), |end| end + 1);
    let request_line = &head[..start];
    let (mut has_host, mut has_length, mut has_encoding) = (false, false, false);
    for end in ends {
        let line = &head[start..end];
        start = end + 1;
        // Most lines need not be compared with the three names.
        if !matches!(line[0], b'C' | b'c' | b'H' | b'h' | b'T' | b't') {
            continue;
        }
        let Some(colon) = memchr(b':', line) else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"host") {
            if replace(&mut has_host, true) {
                return Err(Refusal::Ambiguous("The header `Host` is there twice. Send it once."));
            }
            if !is_host(value) {
                return Err(Refusal::Ambiguous(
                    "The header `Host` names no host. Send the host that the address names.",
                ));
            }
        } else if name.eq_ignore_ascii_case(b"content-length") {
            if replace(&mut has_length, true) || value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
                return Err(Refusal::Ambiguous(
                    "The header `Content-Length` is there twice, or is not one number. Send it once, with the number of bytes.",
                ));
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding")
            && (replace(&mut has_encoding, true) || !value.eq_ignore_ascii_case(b"chunked"))
        {
            return Err(Refusal::Ambiguous(
                "The header `Transfer-Encoding` is not exactly `chunked`. Send the body in chunks, or with its length, without any other encoding.",
            ));
        }
    }
    if has_length && has_encoding {
        return Err(Refusal::Ambiguous(
            "The headers `Content-Length` and `Transfer-Encoding` are both there. Send the body with its length, or in chunks.",
        ));
    }
    // HTTP/1.0 has no `Host`, and load balancers still check with it. Hyper refuses any other version.
    if !has_host && request_line.ends_with(b" HTTP/1.1\r\n") { Err(Refusal::NoHost) } else { Ok(()) }
}

/// A line of a head that ends with LF alone.
pub(super) fn bare_line_feed() -> Refusal {
    Refusal::Ambiguous("A line of the request's head ends with LF alone. End each line with CR and LF.")
}

/// Whether `value` is a host with or without a port (RFC 9110 §7.2).
fn is_host(value: &[u8]) -> bool {
    let Ok(authority) = Authority::try_from(value) else { return false };
    // A name or password before the host is not part of it.
    let Some(port) = authority.as_str().strip_prefix(authority.host()) else { return false };
    port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message to the head `lines`, whose request line has `version`.
    fn advice(version: &str, lines: &str) -> Option<&'static str> {
        let head = format!("GET / HTTP/{version}\r\n{}\r\n", lines.replace('|', "\r\n"));
        check_head(head.as_bytes()).err().map(|refusal| match refusal {
            Refusal::Ambiguous(advice) => advice,
            Refusal::NoHost => "`Host` is missing",
            Refusal::HeadTooLarge | Refusal::NoRoom => panic!("{refusal:?}"),
        })
    }

    #[test]
    fn two_lengths_and_a_length_beside_chunks_are_refused_whatever_their_values_and_order() {
        for lines in [
            "Content-Length: 5|content-LENGTH: 5|",
            "Content-Length: 5|Content-Length: 6|",
            "Content-Length: 5, 5|",
            "Content-Length:|",
            "Content-Length: +5|",
            "Content-Length: 5|Transfer-Encoding: chunked|",
            "transfer-encoding:chunked|content-length:5|",
        ] {
            let message = advice("1.1", &format!("Host: a|{lines}")).unwrap_or_else(|| panic!("{lines}"));
            assert!(message.contains("`Content-Length`"), "{lines}: {message}");
        }
    }

    #[test]
    fn an_encoding_other_than_chunks_once_is_refused() {
        for lines in [
            "Transfer-Encoding: gzip, chunked|",
            "Transfer-Encoding: chunked|Transfer-Encoding: chunked|",
            "Transfer-Encoding:|",
        ] {
            assert!(advice("1.1", &format!("Host: a|{lines}")).unwrap().contains("`Transfer-Encoding`"), "{lines}");
        }
    }

    #[test]
    fn a_host_is_there_once_and_is_a_name_or_an_address_with_or_without_a_port() {
        for host in ["", " ", "a b", "a,b c", "user@a", "a@a", "a:b", "a:1:2", "[::1", "a/b", "a?b", "h\u{e9}", "a%zz"]
        {
            assert!(advice("1.1", &format!("Host: {host}|")).unwrap().contains("`Host` names no host"), "{host:?}");
        }
        for host in [
            "a",
            "A.Example:8080",
            "my_host",
            "192.0.2.1:80",
            "[2001:db8::1]:8443",
            "localhost:",
            "xn--bcher-kva.example",
        ] {
            assert_eq!(advice("1.1", &format!("host:{host} |")), None, "{host:?}");
        }
        assert!(advice("1.1", "Host: a|HOST: a|").unwrap().contains("twice"));
    }

    #[test]
    fn only_http_1_0_needs_no_host() {
        assert!(advice("1.1", "Accept: */*|").unwrap().contains("`Host` is missing"));
        assert_eq!(advice("1.0", "Accept: */*|"), None);
        assert!(advice("1.0", "Host:|").is_some());
        // Hyper refuses these.
        assert_eq!(advice("9.9", ""), None);
        assert_eq!(check_head(b"NONSENSE\r\n\r\n"), Ok(()));
    }

    #[test]
    fn a_usual_head_passes() {
        let lines = "Host: a|Connection: keep-alive|Content-Type: application/json|Content-Length: 00027|TE: trailers|Cookie: content-length: 5|";
        assert_eq!(advice("1.1", lines), None);
        assert_eq!(advice("1.1", "Accept: x|Transfer-Encoding: Chunked|Host: a|"), None);
    }
}
