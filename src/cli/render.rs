//! `handbill render`: Markdown to the HTML of a page.

use std::io::{self, BufRead, Read, Write};
use std::process::ExitCode;

use indexmap::IndexMap;
use serde_json::value::{RawValue, to_raw_value};

use super::error::{CommandError, unwritable};
use handbill_client::terminal::written;
use handbill_pages::values::markdown::render;

/// Keeps the order of members, and every digit of numbers.
type Row = IndexMap<String, Box<RawValue>>;

pub(super) fn run(jsonl: bool) -> Result<ExitCode, CommandError> {
    let input = io::stdin().lock();
    let mut output = io::stdout().lock();
    let done = if jsonl { render_lines(input, &mut output) } else { render_whole(input, &mut output) };
    done.map(|()| ExitCode::SUCCESS)
}

fn render_whole(mut input: impl Read, output: &mut impl Write) -> Result<(), CommandError> {
    let mut bytes = Vec::new();
    input
        .read_to_end(&mut bytes)
        .map_err(|error| CommandError::refused(format!("cannot read standard input: {error}")))?;
    let markdown = String::from_utf8(bytes).map_err(|_| CommandError::refused("standard input is not UTF-8"))?;
    written(output.write_all(render(&markdown).html.as_bytes())).map_err(|error| unwritable("standard output", &error))
}

fn render_lines(input: impl BufRead, output: &mut impl Write) -> Result<(), CommandError> {
    for (index, line) in input.lines().enumerate() {
        let number = index + 1;
        let line = line.map_err(|error| CommandError::failed(format!("cannot read line {number}: {error}")))?;
        let mut row: Row = serde_json::from_str(&line)
            .map_err(|error| CommandError::failed(format!("line {number} is not a JSON object: {}", reason(&error))))?;
        let input = row.get("input").and_then(|value| serde_json::from_str::<String>(value.get()).ok());
        let markdown = input.ok_or_else(|| CommandError::failed(format!("line {number} has no string `input`")))?;
        row.shift_remove("html");
        row.insert("html".to_owned(), to_raw_value(&render(&markdown).html).expect("it is a string"));
        let text = serde_json::to_string(&row).expect("it is made of JSON");
        written(writeln!(output, "{text}")).map_err(|error| unwritable("standard output", &error))?;
    }
    Ok(())
}

/// Without the line number, which is always 1 for a single line.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(what) => format!("{what} at column {}", error.column()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(lines: &str) -> (String, Result<(), CommandError>) {
        let mut output = Vec::new();
        let outcome = render_lines(lines.as_bytes(), &mut output);
        (String::from_utf8(output).unwrap(), outcome)
    }

    #[test]
    fn each_line_comes_back_with_its_html_and_all_else_as_it_was() {
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
    fn an_unreadable_line_is_named_after_those_before_it() {
        let first = "{\"input\":\"a\",\"html\":\"<p>a</p>\\n\"}\n";
        for (second, error) in [
            ("{}", "line 2 has no string `input`"),
            (r#"{"input":7}"#, "line 2 has no string `input`"),
            ("", "line 2 is not a JSON object: EOF while parsing a value at column 0"),
            ("nonsense", "line 2 is not a JSON object: expected ident at column 2"),
            ("[1]", "line 2 is not a JSON object: invalid type: sequence, expected a map at column 0"),
            (r#"{"input":"a"} {}"#, "line 2 is not a JSON object: trailing characters at column 15"),
        ] {
            assert_eq!(
                rendered(&format!("{{\"input\":\"a\"}}\n{second}\n")),
                (first.to_owned(), Err(CommandError::failed(error)))
            );
        }
        let mut output = Vec::new();
        let error = render_lines(&b"{\"input\":\"a\"}\n\xff\n"[..], &mut output).unwrap_err();
        assert!(error.reason.starts_with("cannot read line 2: "), "{error:?}");
        assert_eq!(output, first.as_bytes());
    }
}
