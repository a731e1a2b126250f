//! Detects the language of a text, if the detector is sure of it (contract decision 13).
//!
//! A browser uses the language to hyphenate, to choose fonts and to read aloud. A wrong language does more harm than no
//! language, so no language is given for short texts and for texts in several scripts.

use std::collections::HashMap;

use whatlang::{Lang, Script, detect, detect_script};

use super::html_text::{Piece, closes, element, is_inline, pieces};

/// Fewest letters that a text must have in its main script: with fewer, the guess is wrong too often (contract decision
/// 13).
const MIN_LETTERS: usize = 50;

/// Maximum number of letters that are read. The detector compares the 600 most frequent trigrams of a text, and so many
/// letters have about 600. The bound keeps detection under 0.3 ms, while rendering must stay within 250 ms (contract
/// decision 12).
const MAX_LETTERS: usize = 1000;

/// Maximum bytes of HTML that are searched for letters. A page that begins with this much markup or code has no
/// language.
const MAX_HTML_BYTES: usize = 128 * 1024;

/// The code of an unknown language (BCP 47, RFC 5646 §4.1).
pub const UNDETERMINED: &str = "und";

/// A language, by its shortest BCP 47 code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Language(&'static str);

impl Language {
    /// The language with this `code`, which a store has kept; `None` if [`Language::of_html`] never returns such a
    /// language.
    pub fn from_code(code: &str) -> Option<Self> {
        Lang::all().iter().map(|&lang| code_of(lang)).find(|known| *known == code).map(Self)
    }

    pub fn code(self) -> &'static str {
        self.0
    }

    /// The language of the text of `html`, which the renderer wrote. Code and addresses do not count.
    pub fn of_html(html: &str) -> Option<Self> {
        let text = prose(&html[..html.floor_char_boundary(MAX_HTML_BYTES)]);
        let found = detect(&text)?;
        let (letters, of_script) = count_letters(&text, found.script());
        // The detector claims to be sure of Greek even if a long text in a script that it does not know has one Greek
        // letter. So the letters are counted here.
        let is_sure = found.is_reliable() && of_script >= MIN_LETTERS && of_script * 4 >= letters * 3;
        is_sure.then(|| Self(code_of(found.lang())))
    }
}

/// The words of `html` without code and addresses, up to [`MAX_LETTERS`] letters in total.
fn prose(html: &str) -> String {
    let mut all = String::new();
    let mut in_code = 0_usize;
    let (mut letters, mut counted) = (0, 0);
    for piece in pieces(html) {
        match piece {
            Piece::Tag(tag) => match element(tag) {
                "code" | "pre" if closes(tag) => in_code = in_code.saturating_sub(1),
                "code" | "pre" => in_code += 1,
                name if is_inline(name) => {}
                _ => all.push(' '),
            },
            Piece::Text(text) if in_code == 0 => {
                let end = if text.len() > MAX_LETTERS {
                    text.char_indices().filter(|(_, c)| c.is_alphabetic()).nth(MAX_LETTERS)
                } else {
                    None
                };
                all.push_str(end.map_or(text, |(end, _)| &text[..end]));
            }
            Piece::Character(character) if in_code == 0 => all.push(character),
            Piece::Text(_) | Piece::Character(_) => {}
        }
        // A text has at most as many letters as bytes, so a shorter text need not be counted yet.
        if all.len() > MAX_LETTERS {
            letters += all[counted..].chars().filter(|c| c.is_alphabetic()).count();
            counted = all.len();
            if letters > MAX_LETTERS {
                break;
            }
        }
    }
    let mut words = String::with_capacity(all.len());
    for word in all.split_whitespace().filter(|word| !is_address(word)) {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
    }
    words
}

/// Whether `word` is a web or email address.
fn is_address(word: &str) -> bool {
    (word.contains(':') && word.contains("://")) || word.contains('@') || word.starts_with("www.")
}

fn count_letters(text: &str, script: Script) -> (usize, usize) {
    let (mut letters, mut of_script) = (0, 0);
    // A text has few different letters, and finding the script of a letter takes long.
    let mut known: HashMap<char, bool> = HashMap::new();
    for letter in text.chars().filter(|c| c.is_alphabetic()) {
        letters += 1;
        let is_of_script = if letter.is_ascii() {
            script == Script::Latin
        } else {
            *known.entry(letter).or_insert_with(|| is_of(letter, script))
        };
        of_script += usize::from(is_of_script);
    }
    (letters, of_script)
}

/// Whether `letter` belongs to a language whose main script is `script`. Japanese uses three scripts.
fn is_of(letter: char, script: Script) -> bool {
    const JAPANESE: [Script; 3] = [Script::Mandarin, Script::Hiragana, Script::Katakana];
    let own = detect_script(letter.encode_utf8(&mut [0; 4]));
    own.is_some_and(|own| own == script || (JAPANESE.contains(&own) && JAPANESE.contains(&script)))
}

/// The shortest code that BCP 47 allows: the two letters of ISO 639-1, which all these languages have.
fn code_of(lang: Lang) -> &'static str {
    match lang {
        Lang::Afr => "af",
        Lang::Aka => "ak",
        Lang::Amh => "am",
        Lang::Ara => "ar",
        Lang::Aze => "az",
        Lang::Bel => "be",
        Lang::Ben => "bn",
        Lang::Bul => "bg",
        Lang::Cat => "ca",
        Lang::Ces => "cs",
        Lang::Cmn => "zh",
        Lang::Cym => "cy",
        Lang::Dan => "da",
        Lang::Deu => "de",
        Lang::Ell => "el",
        Lang::Eng => "en",
        Lang::Epo => "eo",
        Lang::Est => "et",
        Lang::Fin => "fi",
        Lang::Fra => "fr",
        Lang::Guj => "gu",
        Lang::Heb => "he",
        Lang::Hin => "hi",
        Lang::Hrv => "hr",
        Lang::Hun => "hu",
        Lang::Hye => "hy",
        Lang::Ind => "id",
        Lang::Ita => "it",
        Lang::Jav => "jv",
        Lang::Jpn => "ja",
        Lang::Kan => "kn",
        Lang::Kat => "ka",
        Lang::Khm => "km",
        Lang::Kor => "ko",
        Lang::Lat => "la",
        Lang::Lav => "lv",
        Lang::Lit => "lt",
        Lang::Mal => "ml",
        Lang::Mar => "mr",
        Lang::Mkd => "mk",
        Lang::Mya => "my",
        Lang::Nep => "ne",
        Lang::Nld => "nl",
        Lang::Nob => "nb",
        Lang::Ori => "or",
        Lang::Pan => "pa",
        Lang::Pes => "fa",
        Lang::Pol => "pl",
        Lang::Por => "pt",
        Lang::Ron => "ro",
        Lang::Rus => "ru",
        Lang::Sin => "si",
        Lang::Slk => "sk",
        Lang::Slv => "sl",
        Lang::Sna => "sn",
        Lang::Spa => "es",
        Lang::Srp => "sr",
        Lang::Swe => "sv",
        Lang::Tam => "ta",
        Lang::Tel => "te",
        Lang::Tgl => "tl",
        Lang::Tha => "th",
        Lang::Tuk => "tk",
        Lang::Tur => "tr",
        Lang::Ukr => "uk",
        Lang::Urd => "ur",
        Lang::Uzb => "uz",
        Lang::Vie => "vi",
        Lang::Yid => "yi",
        Lang::Zul => "zu",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGLISH: &str = "The committee will publish its findings next week, and everybody may read them.";
    const GERMAN: &str =
        "Der Ausschuss wird seine Ergebnisse nächste Woche veröffentlichen, und alle dürfen sie lesen.";
    const TIBETAN: &str = "བོད་ཀྱི་སྐད་ཡིག་ནི་བོད་མི་རིགས་ཀྱི་སྐད་ཡིག་ཡིན། དེ་ནི་ས་ཆ་མང་པོར་བེད་སྤྱོད་གཏོང་གི་ཡོད།";

    fn code(html: &str) -> &'static str {
        Language::of_html(html).map_or(UNDETERMINED, Language::code)
    }

    #[test]
    fn a_text_has_the_language_that_it_is_written_in() {
        for (text, expected) in [
            (ENGLISH, "en"),
            (GERMAN, "de"),
            ("La commission publiera ses conclusions la semaine prochaine, et chacun pourra les lire.", "fr"),
            ("Комиссия опубликует свои выводы на следующей неделе, и каждый сможет их прочитать.", "ru"),
            ("ستنشر اللجنة نتائجها في الأسبوع المقبل، ويمكن للجميع قراءتها والتعليق عليها بحرية.", "ar"),
            ("הוועדה תפרסם את ממצאיה בשבוע הבא, וכל אחד יוכל לקרוא אותם ולהגיב עליהם בחופשיות.", "he"),
            (&"委員会は来週その調査結果を公表し、誰でもそれを読むことができるようになります。".repeat(2), "ja"),
            (&"委员会将于下周公布其调查结果,任何人都可以自由阅读并发表评论。".repeat(2), "zh"),
        ] {
            assert_eq!(code(&format!("<p>{text}</p>\n")), expected, "{text}");
        }
    }

    #[test]
    fn a_text_of_fewer_than_50_letters_has_no_language() {
        let fifty = "Die Ordnung muss für immer in diesem Codebase bleiben, ja";
        let letters = |text: &str| text.chars().filter(|c| c.is_alphabetic()).count();
        let short: String = fifty.chars().take(54).collect();
        assert!(letters(&short) < 50 && letters(&format!("{fifty} so wie sie ist")) >= 50);
        assert_eq!(code(&format!("<p>{short} 1234567890 1234567890</p>")), UNDETERMINED);
        assert_eq!(code(&format!("<p>{fifty} so wie sie ist</p>")), "de");
    }

    #[test]
    fn code_and_addresses_do_not_count() {
        let only_code = format!(
            "<p>Hallo</p><pre><code class=\"language-text\">{ENGLISH}\n</code></pre><p><code>{ENGLISH}</code></p>"
        );
        assert_eq!(code(&only_code), UNDETERMINED);
        assert_eq!(code(&format!("<p>{GERMAN}</p>{only_code}")), "de");
        let addresses =
            "https://pages.example/the/committee/will/publish press.office@committee.pages.example ".repeat(5);
        assert_eq!(
            code(&format!("<p><a href=\"/the-committee-will-publish-its-findings\">{addresses}</a></p>")),
            UNDETERMINED
        );
    }

    #[test]
    fn a_text_that_no_language_is_sure_of_has_none() {
        for text in
            ["xkcd qwrt zxcv bnmp lkjh ".repeat(4), "a ".repeat(100), TIBETAN.to_owned(), format!("{TIBETAN} \u{3b1}")]
        {
            assert_eq!(code(&format!("<p>{text}</p>")), UNDETERMINED, "{text}");
        }
        let mixed =
            format!("<p>{ENGLISH}</p><p>Комиссия опубликует свои выводы на следующей неделе, и каждый сможет.</p>");
        assert_eq!(code(&mixed), UNDETERMINED);
    }

    #[test]
    fn a_word_that_is_partly_emphasised_stays_one_word() {
        let html = "<p>a<em>b</em>c <a href=\"/x\">d</a>e<br>f</p><ul><li>g</li></ul>h";
        assert_eq!(prose(html), "abc de f g h");
    }

    #[test]
    fn the_beginning_of_a_long_text_decides() {
        let long = format!("<p>{}</p><p>{}</p>", GERMAN.repeat(100), ENGLISH.repeat(10_000));
        assert_eq!(code(&long), "de");
        assert!(prose(&long).len() < 20_000);
    }

    #[test]
    fn every_code_is_kept_by_a_store_and_no_other_is_known() {
        for &lang in Lang::all() {
            let code = code_of(lang);
            assert!(code.len() == 2 && code.bytes().all(|byte| byte.is_ascii_lowercase()), "{code}");
            assert_eq!(Language::from_code(code).map(Language::code), Some(code));
        }
        let mut codes: Vec<&str> = Lang::all().iter().map(|&lang| code_of(lang)).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Lang::all().len());
        for other in ["", "und", "deu", "EN", "x\"y"] {
            assert_eq!(Language::from_code(other), None, "{other}");
        }
    }

    proptest::proptest! {
        #[test]
        fn detecting_never_fails(html in "(\\PC|[a-zA-Z<>&;\" \n]|&amp;|<code>|</code>|[а-я]|[あ-ん]){0,200}") {
            let _ = Language::of_html(&html);
        }
    }
}
