//! A page: its head and its text.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::head::{Live, PageHead};
use super::{content::Content, edit_key::EditKey, language::Language, markdown::Rendered};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub head: PageHead,
    pub text: PageText,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageText {
    pub content: Content,
    pub html: String,
    pub excerpt: String,
    pub code_blocks: Vec<u32>,
    /// Unknown BCP 47 codes read back as `None`.
    #[serde(serialize_with = "language_code", deserialize_with = "language_of_code")]
    pub language: Option<Language>,
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
fn language_code<S: Serializer>(language: &Option<Language>, serializer: S) -> Result<S::Ok, S::Error> {
    language.map(Language::code).serialize(serializer)
}

fn language_of_code<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Language>, D::Error> {
    let code = Option::<String>::deserialize(deserializer)?;
    Ok(code.as_deref().and_then(Language::from_code))
}

impl Page {
    pub fn new(head: PageHead, content: Content, rendered: Rendered) -> Self {
        let Rendered { html, excerpt, code_blocks, link_origins: links, language, renderer_version, .. } = rendered;
        Self {
            head: head.map_state(|live| Live { links, renderer_version, ..live }),
            text: PageText { content, html, excerpt, code_blocks, language },
        }
    }

    pub fn seems_to_hold_a_key(&self) -> bool {
        let mut details = self.head.state.details.texts();
        details.any(|(_, text)| EditKey::stands_in(text)) || EditKey::stands_in(self.text.content.as_str())
    }
}
