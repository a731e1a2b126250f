//! Compares rendering with the parser's own HTML, in one run: `cargo bench --bench rendering`.
//!
//! The rounds of all measurements are interleaved, so that a machine that is slow for a while is slow for all of them.
//! The fastest round of each counts: other work on the machine only ever adds time. The last line is a ratio that
//! should be at most 4: rendering through both barriers, without the excerpt and the detection of the language, to the
//! HTML that pulldown-cmark writes.
//!
//! Then it renders hostile content of the largest size, each text a few times, and prints the slowest, which should take
//! at most 100 ms.

use std::hint::black_box;
use std::time::{Duration, Instant};

use handbill_core::domain::content::MAX_BYTES;
use handbill_core::domain::excerpt::excerpt_of;
use handbill_core::domain::language::Language;
use handbill_core::domain::markdown::render;
use pulldown_cmark::{Options, Parser, html};

const MIXED: &str = include_str!("documents/mixed.md");

const ROUNDS: usize = 400;
const CALLS_PER_ROUND: u32 = 10;

/// Parts that hostile content repeats: what opens and never closes, nests, refers to what is not there, or becomes much
/// longer as HTML.
const HOSTILE: [&str; 36] = [
    "> ",
    ">",
    "- ",
    "* a\n 1. b\n",
    "[",
    "[a](",
    "![a](",
    "]",
    "[a][a] ",
    "[a]: b\n",
    "[^a]: b\n",
    "*a ",
    "**a* ",
    "_a__ ",
    "~~a~ ",
    "`",
    "`a``",
    "```\na\n```\n",
    "    a\n",
    "<",
    "<a",
    "<b>",
    "<p>",
    "<pre>\n",
    "<!--",
    "<script>",
    "&",
    "&amp;",
    "<http://a>",
    "|a|b|\n|-|-|\n",
    "---\n",
    "# a\n",
    "a\n\n",
    "\\*",
    "\u{301}",
    "👩‍👩‍👧 ",
];
const HOSTILE_ROUNDS: usize = 5;

fn main() {
    let rendered = render(MIXED).html;
    let parser_html = || {
        let mut html = String::new();
        html::push_html(&mut html, Parser::new_ext(black_box(MIXED), Options::ENABLE_STRIKETHROUGH));
        black_box(html);
    };
    let whole = || {
        black_box(render(black_box(MIXED)));
    };
    let excerpt = || {
        black_box(excerpt_of(black_box(&rendered)));
    };
    let language = || {
        black_box(Language::of_html(black_box(&rendered)));
    };
    let parts: [(&str, &dyn Fn()); 4] = [
        ("pulldown-cmark's HTML", &parser_html),
        ("render", &whole),
        ("  excerpt", &excerpt),
        ("  language", &language),
    ];

    let mut fastest = [Duration::MAX; 4];
    for _ in 0..ROUNDS {
        for (fastest, (_, part)) in fastest.iter_mut().zip(parts) {
            let start = Instant::now();
            for _ in 0..CALLS_PER_ROUND {
                part();
            }
            *fastest = start.elapsed().min(*fastest);
        }
    }
    let micros = fastest.map(|time| time.as_secs_f64() * 1e6 / f64::from(CALLS_PER_ROUND));
    println!("{} bytes of Markdown, {} bytes of HTML", MIXED.len(), rendered.len());
    for ((name, _), micros) in parts.iter().zip(micros) {
        println!("{name:<24}{micros:>8.1} µs");
    }
    let [parser, whole, excerpt, language] = micros;
    let barriers = whole - excerpt - language;
    println!("{:<24}{barriers:>8.1} µs", "  both barriers");
    println!("ratio {:.2}", barriers / parser);

    let (took, part) = HOSTILE.iter().map(|part| (hostile(part), part)).max().expect("there are some");
    println!(
        "slowest of {} hostile texts of {MAX_BYTES} bytes: {part:?}, {:.1} ms",
        HOSTILE.len(),
        took.as_secs_f64() * 1e3
    );
}

/// How long it takes at best to render the largest content that repeats `part`.
fn hostile(part: &str) -> Duration {
    let content = part.repeat(MAX_BYTES / part.len());
    let round = |_| {
        let start = Instant::now();
        black_box(render(black_box(&content)));
        start.elapsed()
    };
    (0..HOSTILE_ROUNDS).map(round).min().expect("there are some")
}
