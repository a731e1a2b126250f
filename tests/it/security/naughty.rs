//! Text that is hard on programs that read text.

use handbill_pages::values::markdown::render;

use super::html::{assert_only_the_subset, reserialised};

/// No text here has a character with a meaning in Markdown, so each must come out unchanged.
const NAUGHTY: [&str; 38] = [
    "undefined",
    "NULL",
    "NaN",
    "-1.5e+400",
    "1;DROP TABLE pages",
    "' OR 1=1 -- 1",
    "{{7 x 7}} ${7 x 7} #{7}",
    "%s%n%x%d %00 %0d%0a",
    "../../../../etc/passwd%00",
    "() { :;}; touch /tmp/x",
    "C:PRN.CON.NUL",
    "Ω≈ç√∫˜µ≤≥÷ åß∂ƒ©˙∆˚¬…æ",
    "¡™£¢∞§¶•ªº–≠ ¸˛Ç◊ı˜Â¯˘¿",
    "田中さんにあげて下さい 和製漢語 사회과학원",
    "表ポあA鷗ŒéＢ逍Üßªąñ丂㐀𠀀",
    "Ⱥ Ⱦ ﬀ ﬃ ﷽ ﷺ",
    "𝐓𝐡𝐞 𝕢𝕦𝕚𝕔𝕜 ⒯⒣⒠ ꜰᴏx",
    "הָיְתָהtestالصفحات التّحول",
    "\u{202e}txt.exe\u{202c}",
    "\u{2066}left\u{2067}right\u{2069}",
    "\u{200b}zero\u{200c}width\u{200d}joined\u{2060}",
    "mid\u{feff}mark",
    "e\u{301}\u{302}\u{303}\u{304}\u{305}\u{306}\u{307}\u{308}\u{309}\u{30a}\u{30b}\u{30c}",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏿 🇺🇳🇷🇺🇸 1️⃣",
    "\u{1f1e6}\u{1f1e6}\u{1f1e6}",
    "\u{e000}\u{f8ff}\u{10fffd}",
    "\u{fffe}\u{ffff}\u{10ffff}",
    "\u{fdef}",
    "\u{2028}line\u{2029}paragraph",
    "\u{85}next",
    "no\u{a0}break",
    "bell\u{7} escape\u{1b} delete\u{7f}",
    "\u{1}\u{2}\u{8}\u{e}\u{1f}",
    "\u{ad}soft\u{ad}hyphen",
    "I\u{307}STANBUL ıİ",
    "\u{e0041}\u{e0042}\u{e007f} tags",
    "ÅÅÅ \u{1100}\u{1161}\u{11a8}",
    "\"quoted\" 'quoted' “quoted”",
];

#[test]
fn naughty_text_comes_out_as_it_went_in() {
    for text in NAUGHTY {
        let html = render(text).html;
        assert_eq!(assert_only_the_subset(&html, text).text, format!("{text}\n"));
        assert_eq!(reserialised(&html), html, "from {text:?}");
    }
}

#[test]
fn naughty_text_comes_out_of_code_as_it_went_in() {
    for text in NAUGHTY {
        let html = render(&format!("```\n{text}\n```")).html;
        assert_eq!(assert_only_the_subset(&html, text).text, format!("{text}\n\n"));
    }
}

#[test]
fn a_code_point_that_is_no_character_is_replaced() {
    for text in ["\0", "\u{fdd0}", "\u{fdd1}", "\u{fdd2}", "\u{fdd3}", "\u{fdd4}", "\u{fdd5}"] {
        let html = render(&format!("a{text}b `{text}`")).html;
        assert_eq!(html, "<p>a\u{fffd}b <code>\u{fffd}</code></p>\n", "from {text:?}");
    }
}
