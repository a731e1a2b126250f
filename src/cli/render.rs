//! `handbill render`: Markdown to the HTML that a page with it would have.

use std::io::{self, BufRead, Read, Write};
use std::process::ExitCode;

use serde_json::{Map, Value};

use crate::domain::markdown::render;

/// Renders standard input to standard output; with `jsonl`, line by line.
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
        let mut row: Map<String, Value> =
            serde_json::from_str(&line).map_err(|error| format!("line {number} is not a JSON object: {error}"))?;
        let Some(Value::String(markdown)) = row.get("input") else {
            return Err(format!("line {number} has no string `input`"));
        };
        let html = render(markdown).html;
        row.insert("html".to_owned(), html.into());
        writeln!(output, "{}", Value::Object(row)).map_err(|error| unwritable(&error))?;
    }
    Ok(())
}

fn unwritable(error: &io::Error) -> String {
    format!("could not write to standard output: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_comes_back_with_its_html_added() {
        let mut output = Vec::new();
        render_lines(&b"{\"id\":1,\"input\":\"a\"}\n"[..], &mut output).unwrap();
        let row: Value = serde_json::from_slice(&output).unwrap();
        assert_eq!(row, serde_json::json!({"id": 1, "input": "a", "html": "<p>a</p>\n"}));
    }

    #[test]
    fn a_line_without_input_is_named() {
        let error = render_lines(&b"{\"input\":\"a\"}\n{}\n"[..], &mut Vec::new()).unwrap_err();
        assert_eq!(error, "line 2 has no string `input`");
    }
}
