//! The operators' own documents: privacy, terms, support.

use super::contact::Contact;

const LABELS: [(&str, &str); 3] = [("privacy", "Privacy"), ("terms", "Terms"), ("support", "Support")];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteLink {
    pub name: &'static str,
    pub label: &'static str,
    pub target: Contact,
}

impl SiteLink {
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let expected = "give privacy=URL, terms=URL or support=URL";
        let (name, target) = text.split_once('=').ok_or(expected)?;
        let known = LABELS.into_iter().find(|(known, _)| *known == name.trim());
        let (name, label) = known.ok_or(expected)?;
        Ok(Self { name, label, target: Contact::parse(target).map_err(|_| expected)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_names_a_document_that_directories_ask_for() {
        let terms = SiteLink::parse("terms=https://pages.example/terms?a=b").unwrap();
        assert_eq!((terms.label, terms.target.to_string().as_str()), ("Terms", "https://pages.example/terms?a=b"));
        assert!(SiteLink::parse("support=help@pages.example").is_ok());
        for bad in ["", "terms", "imprint=https://pages.example/", "privacy=/privacy", "privacy=javascript:alert(1)"] {
            assert!(SiteLink::parse(bad).is_err(), "{bad}");
        }
    }
}
