//! `handbill render`: turns Markdown into the HTML of a page.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead, Read, Write};
use std::process::ExitCode;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use handbill_core::domain::markdown::render;

/// Renders standard input to standard output; with `jsonl`, each line by itself.
pub(super) fn run(jsonl: bool) -> Result<ExitCode, String> {
    let (input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let done = if jsonl { render_lines(input, &mut output) } else { render_whole(input, &mut output) };
    done.map(|()| ExitCode::SUCCESS)
}

fn render_whole(mut input: impl Read, output: &mut impl Write) -> Result<(), String> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).map_err(|error| format!("could not read standard input: {error}"))?;
    let markdown = String::from_utf8(bytes).map_err(|_| "standard input is not UTF-8".to_owned())?;
    output.write_all(render(&markdown).html.as_bytes()).map_err(|error| unwritable(&error))
}

fn render_lines(input: impl BufRead, output: &mut impl Write) -> Result<(), String> {
    for (index, line) in input.lines().enumerate() {
        let number = index + 1;
        let line = line.map_err(|error| format!("could not read line {number}: {error}"))?;
        let row: Row = serde_json::from_str(&line)
            .map_err(|error| format!("line {number} is not a JSON object: {}", reason(&error)))?;
        let markdown = row.input().ok_or_else(|| format!("line {number} has no string `input`"))?;
        let rendered = row.with_html(&render(&markdown).html);
        let text = serde_json::to_string(&rendered).expect("it is made of JSON");
        writeln!(output, "{text}").map_err(|error| unwritable(&error))?;
    }
    Ok(())
}

/// The parser's message without its line number, which is always 1 since the parser gets one line at a time.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(what) => format!("{what} at column {}", error.column()),
        None => text,
    }
}

/// A JSON object that keeps the order of its members and their text, so that no digit of a number is lost.
struct Row<'a>(Vec<(String, Cow<'a, RawValue>)>);

impl Row<'_> {
    /// The string `input`. If there are several, the last one, as in other parsers of JSON.
    fn input(&self) -> Option<String> {
        let (_, value) = self.0.iter().rfind(|(name, _)| name == "input")?;
        serde_json::from_str(value.get()).ok()
    }

    /// Adds `html` at the end, and removes a `html` that was there.
    fn with_html(mut self, html: &str) -> Self {
        self.0.retain(|(name, _)| name != "html");
        self.0.push(("html".to_owned(), Cow::Owned(to_raw_value(html).expect("it is a string"))));
        self
    }
}

impl<'de> Deserialize<'de> for Row<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Row<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Row<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    members.push((name, Cow::Borrowed(value)));
                }
                Ok(Row(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

fn unwritable(error: &io::Error) -> String {
    format!("could not write to standard output: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(lines: &str) -> (String, Result<(), String>) {
        let mut output = Vec::new();
        let outcome = render_lines(lines.as_bytes(), &mut output);
        (String::from_utf8(output).unwrap(), outcome)
    }

    #[test]
    fn each_line_comes_back_with_its_html_added_and_all_else_as_it_came() {
        for (line, expected) in [
            (r#"{"id":1,"input":"a"}"#, r#"{"id":1,"input":"a","html":"<p>a</p>\n"}"#),
            (
                r#"{"z":12345678901234567890123,"y":1.10,"x":1e999,"input":"a","b":{"d":0.10,"c":-0}}"#,
                r#"{"z":12345678901234567890123,"y":1.10,"x":1e999,"input":"a","b":{"d":0.10,"c":-0},"html":"<p>a</p>\n"}"#,
            ),
            (r#"{"html":"old","input":"\u0061"}"#, r#"{"input":"\u0061","html":"<p>a</p>\n"}"#),
        ] {
            assert_eq!(rendered(line), (format!("{expected}\n"), Ok(())));
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named_and_those_before_it_are_rendered() {
        let first = "{\"input\":\"a\",\"html\":\"<p>a</p>\\n\"}\n";
        for (second, error) in [
            ("{}", "line 2 has no string `input`"),
            (r#"{"input":7}"#, "line 2 has no string `input`"),
            ("", "line 2 is not a JSON object: EOF while parsing a value at column 0"),
            ("nonsense", "line 2 is not a JSON object: expected ident at column 2"),
            ("[1]", "line 2 is not a JSON object: invalid type: sequence, expected a JSON object at column 0"),
            (r#"{"input":"a"} {}"#, "line 2 is not a JSON object: trailing characters at column 15"),
        ] {
            assert_eq!(
                rendered(&format!("{{\"input\":\"a\"}}\n{second}\n")),
                (first.to_owned(), Err(error.to_owned()))
            );
        }
        let mut output = Vec::new();
        let error = render_lines(&b"{\"input\":\"a\"}\n\xff\n"[..], &mut output).unwrap_err();
        assert!(error.starts_with("could not read line 2: "), "{error}");
        assert_eq!(output, first.as_bytes());
    }
}
