//! Reads of operators, and that the audit has them.

use serde_json::{Value, json};

use super::Operated;

/// The lines of the audit, without their times.
async fn audit(operated: &Operated) -> Vec<Value> {
    let without_time = |mut line: Value| {
        assert!(line.as_object_mut().unwrap().remove("at").is_some());
        line
    };
    operated.audit().await.into_iter().map(without_time).collect()
}

#[tokio::test]
async fn whoever_reads_records_or_looks_for_pages_or_at_one_is_in_the_audit_once() {
    let operated = Operated::start();
    for number in 0..600 {
        operated.app.publish(&format!("Page {number}"), "See https://a.example/.").await;
    }
    let mut path = "/records?by=Ada%20%C3%BC".to_owned();
    let mut batches = 0;
    loop {
        let answer = operated.ask("GET", &path, "").await.expect(200);
        batches += 1;
        let end: Value = serde_json::from_str(answer.text.lines().last().unwrap()).unwrap();
        let Some(next) = end["next"].as_str() else { break };
        path = format!("/records?after={next}&by=Ada%20%C3%BC");
    }
    assert!(batches > 1, "a copy of everything takes some requests");
    let (found, _) = operated.scan(json!({"linking_to": "a.example"})).await;
    assert_eq!(found.len(), 600);
    let slug = found.first().unwrap();
    for path in [format!("/inspect/{slug}?by=desk"), "/inspect/never-22222222?by=desk".to_owned()] {
        operated.ask("GET", &path, "").await.expect(200);
    }
    let expected = [
        json!({"number": 1, "by": "Ada ü", "action": "export"}),
        json!({"number": 2, "by": "desk", "action": "scan"}),
        json!({"number": 3, "by": "desk", "action": "inspect", "slug": slug}),
        json!({"number": 4, "by": "desk", "action": "inspect", "slug": "never-22222222"}),
    ];
    assert_eq!(audit(&operated).await, expected);
}

#[tokio::test]
async fn nobody_reads_without_a_name() {
    let operated = Operated::start();
    let page = operated.app.published().await;
    for path in ["/records", "/records?by=", "/records?by=desk&before=1", "/records?by=desk&after=zz"] {
        operated.ask("GET", path, "").await.expect(400);
    }
    let answer = operated.ask("GET", &format!("/inspect/{}", page.slug), "").await.expect(400);
    assert!(answer.text.contains("?by=NAME"), "{answer:?}");
    operated.ask("POST", "/scan", json!({"linking_to": "a.example"})).await.expect(400);
    operated.ask("POST", "/scan", json!({"by": " ", "linking_to": "a.example"})).await.expect(400);
    assert!(audit(&operated).await.is_empty());
}
