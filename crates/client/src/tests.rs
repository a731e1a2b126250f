//! The client at servers that misbehave.

use std::io::{Read, Write};
use std::{net::TcpListener, thread, time::Duration};

use ureq::Agent;

use super::{ClientError, api::Api, page::PageReference};
use handbill_pages::values::origin::Origin;

pub(super) const ENDLESS: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";

/// Sends `body` until the client hangs up, or once if `is_endless` is false.
pub(super) fn hostile_server(head: &'static str, body: &'static [u8], is_endless: bool) -> Origin {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            assert_ne!(connection.read(&mut [0; 4096]).unwrap(), 0);
            connection.write_all(head.as_bytes()).unwrap();
            while connection.write_all(body).is_ok() && is_endless {}
        }
    });
    Origin::parse(&format!("http://{address}")).unwrap()
}

pub(super) fn agent() -> Agent {
    Agent::config_builder().http_status_as_error(false).build().new_agent()
}

fn refused(server: &Origin) -> ClientError {
    let page = PageReference::parse("hello-world-7k2m9xqz", server).unwrap();
    Api { agent: &agent(), wait: Duration::ZERO }.read(&page).err().unwrap()
}

#[test]
fn a_time_to_wait_beyond_any_clock_is_not_waited_for() {
    let head = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 18446744073709551615\r\nConnection: close\r\n\r\n";
    let refused = refused(&hostile_server(head, b"{\"message\": \"later\"}", false));
    assert!(matches!(refused, ClientError::Limited(_)), "{refused}");
}

#[test]
fn an_answer_without_an_end_is_given_up_and_the_user_is_told_so() {
    let refused = refused(&hostile_server(ENDLESS, &[b' '; 16384], true));
    assert_eq!(refused.exit_code(), 7);
    let message = refused.to_string();
    assert!(message.contains("is larger than request limit: 16777216"), "{message}");
}

#[test]
fn a_cut_answer_and_a_missing_server_are_told_apart() {
    for head in ["HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n", ""] {
        let refused = refused(&hostile_server(head, b"", false));
        assert!(matches!(refused, ClientError::Lost(_)), "{refused}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = Origin::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    drop(listener);
    let refused = refused(&nobody);
    assert!(refused.to_string().contains("(connection refused)"), "{refused}");
}
