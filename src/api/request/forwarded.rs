//! The elements of `Forwarded` (RFC 7239), read from the right.
//!
//! A proxy appends its element to the header that the client sent. If the header were read from the left, a quote that
//! the client leaves open would swallow the proxy's element. If it is read from the right, the proxy's element is
//! complete before any text of the client is read. A quote inside a quoted string always follows a backslash. So the
//! opening quote is the first quote to the left that has no backslash before it.

/// The `for` parameter of each element of a header, without quotes, from the right. The item is `None` for an element
/// without `for`, and for an unreadable element. An unreadable element ends the iteration.
#[derive(Debug)]
pub(super) struct ForParameters<'a> {
    /// The part that is still unread; `None` after the leftmost element.
    rest: Option<&'a str>,
}

impl<'a> ForParameters<'a> {
    /// The elements of `lines`, which are joined by commas.
    pub(super) fn of(lines: &'a str) -> Self {
        Self { rest: Some(lines) }
    }
}

impl<'a> Iterator for ForParameters<'a> {
    type Item = Option<&'a str>;

    fn next(&mut self) -> Option<Option<&'a str>> {
        let mut rest = self.rest.take()?;
        let mut node = None;
        loop {
            let Some(pair) = Pair::last_of(rest) else { return Some(None) };
            if pair.name.eq_ignore_ascii_case("for") {
                node = Some(pair.value);
            }
            let Some(before) = pair.before.strip_suffix(';') else {
                self.rest = pair.before.strip_suffix(',');
                return Some(node);
            };
            rest = before;
        }
    }
}

struct Pair<'a> {
    name: &'a str,
    value: &'a str,
    /// The text to the left of the parameter, with the comma or semicolon in between.
    before: &'a str,
}

impl<'a> Pair<'a> {
    /// The last parameter in `text`; `None` if its quotes are not well formed.
    fn last_of(text: &'a str) -> Option<Self> {
        let text = text.trim_end();
        let (text, quoted) = match text.strip_suffix('"') {
            Some(inner) => {
                let (before, quoted) = inner.split_at(opening_quote(inner)?);
                (before.trim_end().strip_suffix('=')?, quoted.strip_prefix('"'))
            }
            None => (text, None),
        };
        let start = text.rfind([',', ';']).map_or(0, |separator| separator + 1);
        let (before, pair) = text.split_at(start);
        if pair.contains('"') {
            return None;
        }
        let (name, value) = match quoted {
            Some(quoted) => (pair, quoted),
            // A parameter without a value is ignored.
            None => pair.split_once('=').unwrap_or_default(),
        };
        Some(Self { name: name.trim(), value: value.trim(), before })
    }
}

/// The position of the opening quote of a quoted string. Its closing quote comes right after `text`.
fn opening_quote(text: &str) -> Option<usize> {
    let is_escaped = |end: usize| text[..end].bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1;
    if is_escaped(text.len()) {
        return None;
    }
    text.rmatch_indices('"').map(|(at, _)| at).find(|&at| !is_escaped(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str) -> Vec<Option<&str>> {
        ForParameters::of(lines).collect()
    }

    #[test]
    fn elements_come_from_the_right_with_their_first_for() {
        assert_eq!(read("for=a, For=b;by=c"), [Some("b"), Some("a")]);
        assert_eq!(read("for=a;for=b"), [Some("a")]);
        assert_eq!(read("proto=https"), [None]);
        assert_eq!(read("for=a,,"), [None, None, Some("a")]);
        assert_eq!(read(""), [None]);
    }

    #[test]
    fn quoted_strings_are_read_with_what_separates_elsewhere() {
        assert_eq!(read(r#"for="[::1]:4711";by="a,b;c""#), [Some("[::1]:4711")]);
        assert_eq!(read(r#"for=a;host="x\",for=b;y=\\""#), [Some("a")]);
        assert_eq!(read(r#"for = "a" ; by = b"#), [Some("a")]);
    }

    #[test]
    fn an_element_whose_quotes_make_no_sense_cannot_be_read_and_is_the_last() {
        for lines in
            [r#"for=a,for="b"#, r#"for=a,for=b""#, r#"for=a,for="b"c"#, r#"for=a,for="b\""#, r#"for=a,x"for="b""#]
        {
            assert_eq!(read(lines), [None], "{lines}");
        }
    }
}
