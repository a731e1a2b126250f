//! Content that is expensive to render. The bound is on work, not on elapsed time: work is the processor time of this
//! thread, compared with that of an ordinary document of the same size in the same run. A slow machine is slow for
//! both.

use handbill_pages::values::content::MAX_BYTES;
use handbill_pages::values::markdown::render;
use rustix::time::{ClockId, clock_gettime};

use super::corpora::own;
use super::html::assert_only_the_subset;
use super::rendering;

/// Most work that any document may take, as a multiple of the work of an ordinary document. The most expensive families
/// take about seven times as much. With a parser that nests as deep as content asks for, they take 22 to 42 times as
/// much.
const MAX_RATIO: f64 = 16.0;

#[test]
fn no_content_takes_much_more_work_than_ordinary_content() {
    let ordinary = ordinary_work();
    println!("ordinary content: {:.0} ms", ordinary * 1e3);
    for (name, source) in families() {
        let (first, html) = work(&source);
        // Other work on the machine adds to the time of a run, so the shorter of two runs counts. A first run below the
        // bound is enough.
        let least = if first < MAX_RATIO * ordinary { first } else { first.min(work(&source).0) };
        let ratio = least / ordinary;
        // For whoever measures a release build: contract decision 12 allows 250 ms.
        println!("{:.0} ms, {ratio:.1} times ordinary content, {} bytes: {name}", least * 1e3, html.len());
        assert!(ratio < MAX_RATIO, "{name} takes {ratio:.0} times the work of ordinary content");
        rendering::assert_bounded(&html, &source);
    }
}

#[test]
fn no_expensive_content_comes_out_as_more_than_the_subset() {
    for (name, source) in families() {
        // A twentieth of the content nests as deep as all of it, and the parser of this test is slower than the one
        // under test.
        let mut end = source.len() / 20;
        while !source.is_char_boundary(end) {
            end -= 1;
        }
        assert_only_the_subset(&render(&source[..end]).html, &name);
    }
}

fn ordinary_work() -> f64 {
    let mut chapters = String::new();
    while chapters.len() < MAX_BYTES {
        chapters.push_str(
            "## A chapter\n\nThe *quick* brown **fox** jumps over `12` lazy dogs, see [the page](https://example.org/a) \
             & more. Then it rests, and writes a longer sentence about what it saw on the far side of the fence.\n\n\
             - one\n- two\n  - three\n\n> A quote of some length, over\n> two lines.\n\n```rust\nlet a = b < c;\n```\n\n",
        );
    }
    work(&chapters).0.min(work(&chapters).0)
}

/// Processor time that rendering `source` takes, in seconds, and its HTML.
fn work(source: &str) -> (f64, String) {
    let before = processor_seconds();
    let html = render(source).html;
    (processor_seconds() - before, html)
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a test's run are far below 2^52")]
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Contents of the largest accepted size, each with a description.
fn families() -> Vec<(String, String)> {
    let full = MAX_BYTES;
    let mut families: Vec<(String, String)> = Vec::new();
    // Pieces that are expensive when content consists of nothing else.
    for piece in own("repeated") {
        families.push((format!("repeated {piece:?}"), repeated(&piece, full)));
    }
    // Two pieces with a NUL between them: the first fills one half of the content, the second the other.
    for halves in own("halves") {
        let (first, second) = halves.split_once('\0').expect("two pieces");
        let source = repeated(first, full / 2) + &repeated(second, full / 2);
        families.push((format!("half {first:?}, half {second:?}"), source));
    }
    for depth in [30, 256, 3000] {
        for (open, close) in
            [(">", "\n\n"), ("- ", "a\n"), ("> - ", "a\n"), ("*", "a "), ("[", "a "), ("![", "a](https:b) ")]
        {
            let piece = open.repeat(depth) + close;
            families.push((format!("{depth} times {open:?}, then {close:?}"), repeated(&piece, full)));
        }
        let lazy = ">".repeat(depth) + &repeated("a\n", full - depth);
        families.push((format!("a quote {depth} deep over many lines"), lazy));
    }
    let uses = |definition: &str, use_: &str| definition.to_owned() + &repeated(use_, full - definition.len());
    families.extend([
        ("one reference, used".to_owned(), uses("[a]: #\n\n", "[a]")),
        ("one reference to an image, used".to_owned(), uses("[a]: https:a\n\n", "![a]")),
        ("one long reference, used".to_owned(), uses(&format!("[a]: https:a?{}\n\n", "&".repeat(1000)), "[a]")),
        ("one huge reference, used".to_owned(), uses(&format!("[a]: mailto:{}\n\n", "\"".repeat(50_000)), "[a]")),
        ("references, each its own".to_owned(), numbered(|n| format!("[a{n}]: /b\n[a{n}]\n"))),
        ("an address of `&`".to_owned(), format!("[a](https://a/?{})", "&".repeat(full - 50))),
        ("a fragment of `&`".to_owned(), format!("[a](#{})", "&".repeat(full - 50))),
        ("alternative text of `&`".to_owned(), format!("![{}](https://a/)", "&".repeat(full - 50))),
        ("an address of dots".to_owned(), format!("[a](https://a/{})", "a/../".repeat(full / 5 - 10))),
        ("a host of labels".to_owned(), format!("[a](https://{})", "é.".repeat(full / 3 - 10))),
        ("a host of punycode".to_owned(), format!("[a](https://{})", "xn--a.".repeat(full / 6 - 10))),
        ("a host of one label".to_owned(), format!("[a](https://{})", "é".repeat(full / 2 - 20))),
        ("backticks, ever more".to_owned(), numbered(|n| "`".repeat(n + 1) + " ")),
        ("asterisks, ever more".to_owned(), numbered(|n| "*".repeat(n % 300 + 1) + "a ")),
        ("a staircase of lists".to_owned(), numbered(|n| format!("{}- a\n", " ".repeat(2 * n)))),
        ("a staircase of quotes".to_owned(), numbered(|n| format!("{}a\n", ">".repeat(n)))),
        (
            "a staircase of lists by tabs".to_owned(),
            numbered(|n| format!("{}{}a\n", "\t".repeat(50 * n), "- ".repeat(100))),
        ),
        ("an address, then asterisks".to_owned(), format!("https://a/{}b", "*".repeat(full - 50))),
        ("an address, then parentheses".to_owned(), format!("https://a/b{}", ")".repeat(full - 50))),
        ("an address, then references".to_owned(), format!("https://a/b{}", "&copy;".repeat(full / 6 - 10))),
        ("an address of dots, used".to_owned(), uses(&format!("[a]: https://a/{}\n\n", "a/../".repeat(10_000)), "[a]")),
        ("wide tables of short rows".to_owned(), {
            repeated(&format!("|{}\n|{}\n{}\n", "a|".repeat(443), "-|".repeat(443), "a\n".repeat(592)), full)
        }),
        ("a wide table".to_owned(), format!("|{}\n|{}\n", "a|".repeat(full / 4 - 2), "-|".repeat(full / 4 - 2))),
        ("one word".to_owned(), "a".repeat(full)),
        ("one fence".to_owned(), "`".repeat(full)),
        ("one number".to_owned(), "1".repeat(full)),
    ]);
    for (name, source) in &mut families {
        assert!(source.len() > MAX_BYTES / 2, "{name} is too short to be dear");
        let mut end = source.len().min(MAX_BYTES);
        while !source.is_char_boundary(end) {
            end -= 1;
        }
        source.truncate(end);
    }
    families
}

/// `piece` as often as it takes to fill `bytes`, a little less or a little more.
fn repeated(piece: &str, bytes: usize) -> String {
    piece.repeat(bytes.div_ceil(piece.len()))
}

/// Pieces numbered from 0 on, until they fill the content.
fn numbered(piece: impl Fn(usize) -> String) -> String {
    let mut source = String::new();
    let mut number = 0;
    while source.len() < MAX_BYTES {
        source += &piece(number);
        number += 1;
    }
    source
}
