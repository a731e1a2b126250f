//! Pieces for random documents. The tests in `tests/it/security/` include this file.

/// Pieces whose letters are all text, in any combination.
pub(crate) const LETTERS: [&str; 38] = [
    "a", "b ", "C", " ", "    ", "\t", "\n", "\n\n", "\r\n", "  \n", "\\", "*", "**", "_", "~~d~~ ", "`e` ", "# ",
    "##### ", "===\n", "---\n", "- ", "* ", "1. ", "> ", ">", "[", "]", "![", "[^f]", "<", ">", "<script>", "</p>",
    "<!--", "-->", "<div>\n", "|", "|-|\n",
];

/// Tags and bare addresses whose letters are all text.
pub(crate) const TAGGED_LETTERS: [&str; 6] = [
    "<https://g.example>",
    "<h@i.example>",
    "<j k='l'>",
    "|m|n|\n|-|-|\n",
    "https://o.example/_p_q",
    "http://r@s.example ",
];

const MARKUP: [&str; 55] = [
    "é", "\u{a0}", "\u{202e}", "😀", "\0", "\u{fdd0}", "\u{fdd2}", "\u{feff}", "\r", "\\\n", "***", "__", "~", "~~",
    "`", "``", "```", "~~~\n", "## ", "7) ", "(", ")", "](", "](/x)", "](#f)", "](//h)", "][r]", "[^1]", "&", "&lt;",
    "&#x3c;", "&#13;", "&#xfdd2;", "\"", "'", "|-|-|\n", ":-:", "https://", "ttp://", "://x", "&copy;", "](\n",
    "[r]:\n", "<?x", "```\n", "```a\n", "2) ", "](#&)", "](x:y)", "[^1]: b", "<b>", "&amp;", "&nbsp;", "\u{fdd1}",
    "\u{fdd3}",
];

const LONGER_MARKUP: [&str; 10] = [
    "```rust\n",
    "](https://a.example)",
    "](javascript:alert(1))",
    "](data:text/html,x)",
    "\n\n[r]: https://r.example 't'\n\n",
    "\n[^1]: n\n",
    "<img src=x onerror=alert(1)>",
    "http://a.example",
    "](https://e.example/?a&b)",
    "](mailto:a\"b)",
];

pub(crate) fn all() -> Vec<&'static str> {
    [&LETTERS[..], &TAGGED_LETTERS, &MARKUP, &LONGER_MARKUP].concat()
}
