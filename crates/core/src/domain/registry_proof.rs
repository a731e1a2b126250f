//! The public key by which the registry of MCP servers knows who may publish a server under a domain.

use std::fmt;

use base64::prelude::{BASE64_STANDARD, Engine};

/// The algorithms that the registry knows, with the lengths of their public keys in bytes.
const ALGORITHMS: [(&str, usize); 2] = [("ed25519", 32), ("ecdsap384", 49)];

/// A record like `v=MCPv1; k=ed25519; p=<public key>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryProof(String);

impl RegistryProof {
    /// Checks the form of a record, so that a mistake is noticed at the start and not by the registry.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let parsed = || {
            let (algorithm, key) = text.trim().strip_prefix("v=MCPv1; k=")?.split_once("; p=")?;
            let (_, length) = ALGORITHMS.into_iter().find(|(name, _)| *name == algorithm)?;
            let key_bytes = BASE64_STANDARD.decode(key).ok()?;
            (key_bytes.len() == length).then(|| Self(text.trim().to_owned()))
        };
        parsed().ok_or("give `v=MCPv1; k=ed25519; p=` or `v=MCPv1; k=ecdsap384; p=` with the public key in base64")
    }
}

impl fmt::Display for RegistryProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_names_a_known_algorithm_and_a_key_of_its_length() {
        let key = |bytes: usize| BASE64_STANDARD.encode(vec![7; bytes]);
        for (algorithm, bytes) in ALGORITHMS {
            let record = format!("v=MCPv1; k={algorithm}; p={}", key(bytes));
            assert_eq!(RegistryProof::parse(&format!(" {record}\n")).unwrap().to_string(), record);
            assert!(RegistryProof::parse(&format!("v=MCPv1; k={algorithm}; p={}", key(bytes - 1))).is_err());
        }
        for text in ["", "v=MCPv1", "v=MCPv2; k=ed25519; p=", "v=MCPv1; k=rsa; p=AAAA", "v=MCPv1; k=ed25519; p=!"] {
            assert!(RegistryProof::parse(text).is_err(), "{text}");
        }
    }
}
