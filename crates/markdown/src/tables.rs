//! Finds GitHub's tables, which are shown as their source.
//!
//! The parser's tables fill up short rows: 3.5 KB can become 262,144 cells.

use unicode_width::UnicodeWidthStr;

use super::source::restored;

/// A head and a row of delimiters: one `---`, `:--`, `--:` or `:-:` for each cell of the head. One of the two lines has
/// a `|`.
pub(super) fn begins(source: &str, start: usize, quotes: usize) -> bool {
    let Some((head, after)) = source.get(start..).and_then(split_line) else { return false };
    let delimiters = without_prefix(after, quotes);
    if delimiters.bytes().next().is_none_or(|byte| byte.is_ascii_graphic() && !matches!(byte, b'|' | b':' | b'-')) {
        return false;
    }
    let delimiters = delimiters[..line_end(delimiters).unwrap_or(delimiters.len())].trim_end();
    // Hyphens alone underline a heading; a hyphen before white space begins a list.
    delimiters.contains(['|', ':'])
        && !delimiters.starts_with("- ")
        && !delimiters.starts_with("-\t")
        && (delimiters.contains('|') || head.contains('|'))
        && delimiter_cells(delimiters).is_some_and(|cells| cells == self::cells(head).count())
}

pub(super) fn any_begins(text: &str, quotes: usize) -> bool {
    let mut start = 0;
    while start < text.len() {
        let prefix = text[start..].len() - without_prefix(&text[start..], quotes).len();
        if begins(text, start + prefix, quotes) {
            return true;
        }
        start = match split_line(&text[start..]) {
            Some((_, after)) => text.len() - after.len(),
            None => text.len(),
        };
    }
    false
}

pub(super) fn rows(text: &str, quotes: usize) -> impl Iterator<Item = &str> {
    text.split(['\n', '\r']).map(move |line| without_prefix(line, quotes).trim_end()).filter(|row| !row.is_empty())
}

/// One long cell lengthens all others, so padding needs room.
pub(super) fn padded(rows: &[&str], has_room: impl FnOnce(usize) -> bool) -> Vec<String> {
    let mut widths = Vec::new();
    for (column, cell) in rows.iter().flat_map(|row| cells(row).enumerate()) {
        widths.resize(widths.len().max(column + 1), 0);
        widths[column] = width(cell).max(widths[column]);
    }
    let row_bytes = widths.iter().map(|width| width + "|  ".len()).sum::<usize>() + "|".len();
    if !has_room(row_bytes * rows.len()) {
        return rows.iter().map(|&row| row.to_owned()).collect();
    }
    rows.iter().enumerate().map(|(index, row)| padded_row(row, index == 1, &widths)).collect()
}

fn padded_row(row: &str, is_delimiter: bool, widths: &[usize]) -> String {
    let cells = cells(row).zip(widths).map(|(cell, full)| {
        let missing = full - width(cell);
        if is_delimiter {
            format!("| {} ", cell.replacen('-', &"-".repeat(missing + 1), 1))
        } else {
            format!("| {cell}{} ", " ".repeat(missing))
        }
    });
    cells.collect::<String>() + "|"
}

fn width(cell: &str) -> usize {
    restored(cell).width()
}

fn split_line(text: &str) -> Option<(&str, &str)> {
    let end = line_end(text)?;
    let after = &text[end..];
    Some((&text[..end], after.strip_prefix("\r\n").unwrap_or(&after[1..])))
}

fn line_end(text: &str) -> Option<usize> {
    text.bytes().position(|byte| matches!(byte, b'\n' | b'\r'))
}

/// Without indentation and the markers of up to `quotes` quotes.
fn without_prefix(line: &str, quotes: usize) -> &str {
    let mut rest = line.trim_start_matches([' ', '\t']);
    for _ in 0..quotes {
        match rest.strip_prefix('>') {
            Some(inner) => rest = inner.trim_start_matches([' ', '\t']),
            None => break,
        }
    }
    rest
}

fn delimiter_cells(line: &str) -> Option<usize> {
    let mut cells = 0;
    for cell in inner(line).split('|') {
        let cell = cell.trim();
        let cell = cell.strip_prefix(':').unwrap_or(cell);
        let hyphens = cell.strip_suffix(':').unwrap_or(cell);
        if hyphens.is_empty() || !hyphens.bytes().all(|byte| byte == b'-') {
            return None;
        }
        cells += 1;
    }
    Some(cells)
}

fn cells(row: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    let cells = inner(row).split(move |c: char| {
        let divides = c == '|' && !escaped;
        escaped = c == '\\' && !escaped;
        divides
    });
    cells.map(str::trim)
}

fn inner(line: &str) -> &str {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    match line.strip_suffix('|') {
        Some(inner) if !inner.ends_with('\\') => inner,
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_as_many_delimiters_as_cells_in_its_head() {
        for table in ["|a|\n|-|", "a|b\n-|-", "a | b\r\n:-: | --:", "|a\\|b|\n|-|", "a|b\n|-|-|  \nc", "|a\n:-"] {
            assert!(begins(table, 0, 0), "{table:?}");
        }
        for text in
            ["a|b\n|-|", "a\n-", "|a|\n---", "a|b\n\n-|-", "a|b\n- | -", "a|b\n-|a", "a|b", "a|b\n> -|-", "a\n:-"]
        {
            assert!(!begins(text, 0, 0), "{text:?}");
        }
        assert!(begins("> a|b\n> -|-", 2, 1));
    }

    #[test]
    fn the_columns_of_a_table_have_one_width_if_that_has_room() {
        let rows = ["Dish|Servings", "-|:-:", "|春巻き|2|", "|a\\|b"];
        let padded_rows = ["| Dish   | Servings |", "| ------ | :------: |", "| 春巻き | 2        |", "| a\\|b   |"];
        assert_eq!(padded(&rows, |bytes| bytes == 84), padded_rows);
        let long = "a".repeat(1000);
        let rows = [&["a|b", "-|-", &long][..], &["c|d"; 1000]].concat();
        assert_eq!(padded(&rows, |bytes| bytes < 1_000_000), rows);
    }
}
