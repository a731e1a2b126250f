//! Texts that directories and registries ask for below `/.well-known/`, as proofs of who runs this origin.

const MAX_TEXT_BYTES: usize = 4096;

/// Beginnings of names that clients of OAuth, `OpenID` and MCP read. A text there would change what a protocol says.
const OF_PROTOCOLS: [&str; 4] = ["oauth", "openid", "webauthn", "mcp"];

/// The one name with such a beginning that is a proof: that of the registry of MCP servers.
const REGISTRY: &str = "mcp-registry-auth";

/// Names that the service has itself.
const OURS: [&str; 3] = ["agent-card.json", "ai-catalog.json", "security.txt"];

/// A text at `/.well-known/<name>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WellKnown {
    pub name: String,
    pub text: String,
}

impl WellKnown {
    /// Parses `NAME=TEXT`.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (name, text) = text.split_once('=').ok_or("give NAME=TEXT, for example openai-apps-challenge=abc123")?;
        let (name, text) = (name.trim(), text.trim());
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        if !is_name || !(1..=64).contains(&name.len()) || name.starts_with('.') {
            return Err(
                "a name has 1 to 64 letters, digits, dots, hyphens and underscores, and no dot at its beginning",
            );
        }
        let lower = name.to_ascii_lowercase();
        let is_of_protocol = OF_PROTOCOLS.iter().any(|beginning| lower.starts_with(beginning)) && lower != REGISTRY;
        if is_of_protocol || OURS.contains(&&*lower) {
            return Err("a name of OAuth, of MCP or of this service is not for texts of operators");
        }
        if text.is_empty() || text.len() > MAX_TEXT_BYTES || text.chars().any(char::is_control) {
            return Err("a text has 1 to 4096 bytes on one line");
        }
        Ok(Self { name: name.to_owned(), text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_directory_or_registry_has_a_name_that_no_protocol_reads() {
        let proof = "mcp-registry-auth=v=MCPv1; k=ed25519; p=AAAA=";
        let parsed = WellKnown::parse(proof).unwrap();
        assert_eq!((&*parsed.name, &*parsed.text), ("mcp-registry-auth", "v=MCPv1; k=ed25519; p=AAAA="));
        assert!(WellKnown::parse(" openai-apps-challenge = abc ").is_ok());
        for bad in [
            "",
            "abc",
            "=abc",
            "a=",
            "a/b=c",
            "..=c",
            "oauth-authorization-server={}",
            "OpenID-configuration={}",
            "mcp=1",
            "mcp.json=1",
            "security.txt=x",
            "a=b\nc",
        ] {
            assert!(WellKnown::parse(bad).is_err(), "{bad:?}");
        }
    }
}
