//! Warns operators of a Redis that removes windows when its memory is full, because clients then get their quotas back.

use redis::Value;

use super::pool::Connection;

/// Asks once for the settings of the memory, and warns if Redis may evict keys. A login without the right to ask is no
/// fault.
pub(super) async fn warn(mut connection: Connection) {
    let asked = redis::cmd("INFO").arg("memory").query_async::<Value>(&mut connection).await;
    let mut servers = Vec::new();
    if let Ok(answer) = asked {
        collect_texts(&answer, &mut servers);
    }
    if let Some(policy) = servers.iter().find_map(|info| evicting_policy(info)) {
        tracing::warn!(
            policy,
            "Redis evicts keys when its memory is full, so that clients get their limits back early: set maxmemory-policy to noeviction"
        );
    }
}

/// A cluster answers with a text for each server.
fn collect_texts(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::BulkString(bytes) => texts.push(String::from_utf8_lossy(bytes).into_owned()),
        Value::VerbatimString { text, .. } => texts.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| collect_texts(value, texts)),
        Value::Map(pairs) => pairs.iter().for_each(|(_, value)| collect_texts(value, texts)),
        _ => {}
    }
}

/// The policy in the answer to `INFO memory`, if memory is limited and keys may be evicted.
fn evicting_policy(info: &str) -> Option<&str> {
    let value = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let is_limited = value("maxmemory").is_some_and(|limit| limit != "0");
    value("maxmemory_policy").filter(|&policy| is_limited && policy != "noeviction")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_limited_memory_whose_keys_may_be_evicted_is_worth_a_warning() {
        let info =
            |limit: &str, policy: &str| format!("# Memory\r\nmaxmemory:{limit}\r\nmaxmemory_policy:{policy}\r\n");
        assert_eq!(evicting_policy(&info("4194304", "allkeys-lru")), Some("allkeys-lru"));
        assert_eq!(evicting_policy(&info("4194304", "volatile-ttl")), Some("volatile-ttl"));
        assert_eq!(evicting_policy(&info("0", "allkeys-lru")), None);
        assert_eq!(evicting_policy(&info("4194304", "noeviction")), None);
        assert_eq!(evicting_policy(""), None);
    }
}
