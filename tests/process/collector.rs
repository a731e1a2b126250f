//! A collector of traces: takes OTLP over HTTP and keeps what it was sent, or misbehaves.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use handbill_test_support::client::Connection;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Takes,
    Hangs,
    Refuses,
}

/// A collector. It listens as long as the test runs.
pub(crate) struct Collector {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Collector {
    pub(crate) fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let keeping = Arc::clone(&received);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let keeping = Arc::clone(&keeping);
                thread::spawn(move || converse(stream, manner, &keeping));
            }
        });
        Self { address, received }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn messages(&self) -> Vec<Vec<u8>> {
        self.received.lock().unwrap().clone()
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        let messages = self.messages();
        let requests = messages.iter().map(|message| ExportTraceServiceRequest::decode(&message[..]).unwrap());
        let resources = requests.flat_map(|request| request.resource_spans);
        resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
    }

    pub(crate) fn resource(&self) -> Vec<(String, String)> {
        let messages = self.messages();
        let request = ExportTraceServiceRequest::decode(&messages[0][..]).unwrap();
        attributes(&request.resource_spans[0].resource.as_ref().expect("there is a resource").attributes)
    }
}

pub(crate) fn attributes(attributes: &[KeyValue]) -> Vec<(String, String)> {
    let text = |attribute: &KeyValue| match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        other => panic!("{other:?} is neither text nor a number"),
    };
    let mut pairs: Vec<_> = attributes.iter().map(|attribute| (attribute.key.clone(), text(attribute))).collect();
    pairs.sort();
    pairs
}

fn converse(stream: TcpStream, manner: Manner, received: &Mutex<Vec<Vec<u8>>>) {
    let mut connection = Connection::over(stream);
    while let Ok(message) = connection.message() {
        let end = message.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("it has a head") + 4;
        let head = String::from_utf8_lossy(&message[..end]).to_ascii_lowercase();
        assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
        assert!(head.contains("\r\ncontent-type: application/x-protobuf\r\n"), "{head}");
        received.lock().unwrap().push(message[end..].to_vec());
        let answer: &[u8] = match manner {
            Manner::Takes => b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n",
            Manner::Refuses => b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n",
            Manner::Hangs => continue,
        };
        if connection.send(answer).is_err() {
            return;
        }
    }
}
