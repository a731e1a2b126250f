//! Text between two pieces of markup, and the bare web addresses in it (GFM §6.9).
//!
//! As in GitHub's parser, a host needs no period, and quotes around an address are not part of it. Unlike there, a
//! final `]` counts like a `)`.

use std::ops::Range;

use super::links::{self, LinkAddress};
use super::source::{restored, web_scheme};

#[derive(Default)]
pub(super) struct TextRun {
    text: String,
    /// Ascending.
    escaped: Vec<usize>,
    /// Such as `&amp;`; ascending, none empty.
    references: Vec<Range<usize>>,
}

impl TextRun {
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.escaped.clear();
        self.references.clear();
    }

    pub(super) fn push(&mut self, text: &str, source: &str, range: &Range<usize>) {
        let start = self.text.len();
        self.text.push_str(&restored(text));
        if source.get(..range.start).is_some_and(|before| before.ends_with('\\')) {
            self.escaped.push(start);
        }
        // An address would never end before an empty range.
        let is_empty = self.text.len() == start;
        if !is_empty && source.get(range.clone()).is_some_and(|written| written.starts_with('&') && written != text) {
            self.references.push(start..self.text.len());
        }
    }

    pub(super) fn next_address(&self, from: usize) -> Option<(Range<usize>, LinkAddress)> {
        let mut from = from;
        while let Some(found) = self.text[from..].find(':') {
            let colon = from + found;
            if !self.text[colon..].starts_with("://") {
                from = colon + 1;
                continue;
            }
            let host = colon + "://".len();
            from = host;
            let Some(start) = self.scheme_start(colon) else { continue };
            let Some(end) = self.end(host) else { continue };
            from = end;
            if let Some(address) = links::bare(&self.text[start..end]) {
                return Some((start..end, address));
            }
        }
        None
    }

    fn scheme_start(&self, colon: usize) -> Option<usize> {
        let start = web_scheme(&self.text[..colon])?;
        let slashes_end = colon + "://".len();
        let escape = self.escaped.partition_point(|&at| at < start);
        let reference = self.references.partition_point(|range| range.end <= start);
        // `http\://` means no link.
        let is_plain = self.escaped.get(escape).is_none_or(|&at| at >= slashes_end)
            && self.references.get(reference).is_none_or(|range| range.start >= slashes_end);
        is_plain.then_some(start)
    }

    fn end(&self, host: usize) -> Option<usize> {
        let rest = &self.text[host..];
        if !is_domain(rest) {
            return None;
        }
        let length = rest.find(|c: char| c == '<' || c.is_whitespace()).unwrap_or(rest.len());
        let end = host + self.without_trailing_punctuation(&rest[..length], host);
        (end > host).then_some(end)
    }

    /// The punctuation belongs to the sentence.
    fn without_trailing_punctuation(&self, rest: &str, offset: usize) -> usize {
        let opening = ['(', '['].map(|bracket| rest.matches(bracket).count());
        let mut closing = [')', ']'].map(|bracket| rest.matches(bracket).count());
        let mut end = rest.len();
        while let Some(last) = rest[..end].chars().next_back() {
            if let Some(start) = self.reference_ending_at(offset + end) {
                end = start.saturating_sub(offset);
                continue;
            }
            match last {
                ')' | ']' => {
                    let kind = usize::from(last == ']');
                    if closing[kind] <= opening[kind] {
                        return end;
                    }
                    closing[kind] -= 1;
                    end -= 1;
                }
                '?' | '!' | '.' | ',' | ':' | '*' | '_' | '~' | '\'' | '"' => end -= 1,
                ';' => {
                    let name = rest[..end - 1].trim_end_matches(|c: char| c.is_ascii_alphanumeric());
                    let is_reference = name.len() < end - 1 && name.ends_with('&');
                    end = if is_reference { name.len() - 1 } else { end - 1 };
                }
                _ => return end,
            }
        }
        end
    }

    fn reference_ending_at(&self, end: usize) -> Option<usize> {
        let at = self.references.binary_search_by(|range| range.end.cmp(&end)).ok()?;
        Some(self.references[at].start)
    }
}

fn is_host(c: char) -> bool {
    c.is_ascii_alphanumeric() || (!c.is_ascii() && !c.is_whitespace())
}

/// No underscore in the last two labels.
fn is_domain(rest: &str) -> bool {
    if !rest.starts_with(is_host) {
        return false;
    }
    let length = rest.find(|c: char| !is_host(c) && !matches!(c, '-' | '_' | '.')).unwrap_or(rest.len());
    // A period at the end belongs to the sentence.
    let domain = rest[..length].trim_end_matches(['.', '_', '-']);
    !domain.rsplit('.').take(2).any(|label| label.contains('_'))
}
