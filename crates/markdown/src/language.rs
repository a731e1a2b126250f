//! Detects the language of a text, if it is sure (contract decision 13).
//!
//! A browser uses the language to hyphenate, to choose fonts and to read aloud. A wrong language does more harm than no
//! language, so no language is given for short texts and for texts in several scripts.
//!
//! Method and data are those of `whatlang`: the text's most frequent trigrams are compared with those of each language
//! (Cavnar and Trenkle, N-gram-based text categorization, 1994), and its letters with each alphabet. `whatlang` looks for
//! the 300 trigrams of each language in the text, which takes most of its time. Here the text's trigrams are looked up
//! once, among those of all languages. The results are equal: no difference in 23 356 texts in 481 languages.

use std::collections::HashMap;
use std::sync::LazyLock;

use icu_properties::props::Script;
use icu_properties::{CodePointMapData, PropertyParser};

use super::html_text::{Piece, closes, element, is_inline, pieces};

/// Fewest letters that a text must have in its main script: with fewer, the guess is wrong too often (contract decision
/// 13).
const MIN_LETTERS: usize = 50;

/// Maximum number of letters that are read. So many have about [`MAX_TRIGRAMS`] different trigrams. With 600 letters,
/// 6 % of 23 356 texts in 481 languages get another language or none.
const MAX_LETTERS: usize = 1000;

/// The most frequent trigrams of a text, which count: twice those of a language.
const MAX_TRIGRAMS: usize = 600;

/// The trigrams of a language, and the distance of a trigram that the text or the language does not have.
const LANGUAGE_TRIGRAMS: i32 = 300;

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
        SCRIPTS.values().flat_map(|script| &script.codes).find(|known| **known == code).copied().map(Self)
    }

    pub fn code(self) -> &'static str {
        self.0
    }

    /// The language of the text of `html`, which the renderer wrote. Code and addresses do not count.
    pub fn of_html(html: &str) -> Option<Self> {
        let text = prose(&html[..html.floor_char_boundary(MAX_HTML_BYTES)]);
        SCRIPTS.get(&main_script(&text)?)?.language_of(&text).map(Self)
    }
}

static SCRIPTS: LazyLock<HashMap<Script, Languages>> = LazyLock::new(|| {
    let mut scripts = HashMap::<Script, Languages>::new();
    for line in include_str!("languages.txt").lines().filter(|line| !line.starts_with('#')) {
        let mut fields = line.split([' ', '\t']);
        let mut field = || fields.next().expect("a line has four fields");
        let script = PropertyParser::<Script>::new().get_strict(field()).expect("a script");
        let languages = scripts.entry(script).or_default();
        let language = languages.codes.len();
        languages.codes.push(field());
        for letter in field().chars() {
            languages.alphabets.entry(letter).or_default().push(language);
        }
        let trigrams: Vec<char> = line.chars().skip_while(|c| *c != '\t').skip(1).collect();
        for (rank, trigram) in (0..).zip(trigrams.chunks_exact(3)) {
            languages.ranks.entry(packed(trigram)).or_default().push((language, rank));
        }
    }
    scripts
});

/// The languages of a script, and what tells them apart.
#[derive(Default)]
struct Languages {
    codes: Vec<&'static str>,
    /// The languages with a letter; empty if all have the same ones.
    alphabets: HashMap<char, Vec<usize>>,
    /// The languages with a trigram, and its rank in each, which is 0 for the most frequent one.
    ranks: HashMap<u64, Vec<(usize, i32)>>,
}

impl Languages {
    /// The language that `text` is surely in.
    #[expect(clippy::cast_precision_loss, reason = "a text has far fewer than 2^52 characters")]
    fn language_of(&self, text: &str) -> Option<&'static str> {
        let [_, _, ..] = self.codes[..] else { return self.codes.first().copied() };
        let mut characters = Vec::with_capacity(text.len() + 2);
        characters.push(' ');
        // Digits and punctuation separate words, as white space does.
        characters.extend(text.to_lowercase().chars().map(|c| if is_separator(c) { ' ' } else { c }));
        characters.push(' ');
        let in_words = characters.windows(3).filter(|of| of[1] != ' ' || (of[0] != ' ' && of[2] != ' '));
        let mut trigrams = counted(in_words.map(packed).collect());
        trigrams.sort_unstable_by(|one, other| other.cmp(one));
        trigrams.truncate(MAX_TRIGRAMS);
        let most = LANGUAGE_TRIGRAMS * i32::try_from(trigrams.len()).unwrap_or(i32::MAX);
        let mut similar = vec![(most - LANGUAGE_TRIGRAMS * LANGUAGE_TRIGRAMS).max(0); self.codes.len()];
        for (rank, (_, trigram)) in (0..).zip(&trigrams) {
            for &(language, rank_there) in self.ranks.get(trigram).into_iter().flatten() {
                similar[language] += LANGUAGE_TRIGRAMS - (rank_there - rank).abs();
            }
        }
        characters.retain(|c| *c != ' ');
        let letters = counted(characters);
        let all = letters.iter().map(|(count, _)| count).sum::<usize>() as f64;
        let mut known = vec![0; self.codes.len()];
        for (count, letter) in &letters {
            for &language in self.alphabets.get(letter).into_iter().flatten() {
                known[language] += count;
            }
        }
        // The more letters a text has, the less its alphabet says.
        let weight = if self.alphabets.is_empty() { 2.0 / 3.0 } else { (2.0 / 3.0 - all / 300.0).max(1.0 / 3.0) };
        let score = |language: usize| {
            let alphabet =
                if self.alphabets.is_empty() { 1.0 } else { (2.0 * known[language] as f64 / all - 1.0).max(0.0) };
            alphabet * weight + f64::from(similar[language].max(0)) / f64::from(most) * (1.0 - weight)
        };
        let mut scores: Vec<(f64, &str)> = self.codes.iter().enumerate().map(|(at, code)| (score(at), *code)).collect();
        scores.sort_unstable_by(|(one, _), (other, _)| other.total_cmp(one));
        let ((best, code), (second, _)) = (scores[0], scores[1]);
        let is_sure = (best - second) / second > 0.9 * (0.015 + 3.0 / trigrams.len() as f64);
        is_sure.then_some(code)
    }
}

/// Whether `character` separates words.
fn is_separator(character: char) -> bool {
    character.is_ascii() && !character.is_ascii_alphabetic() && character != '\u{7f}'
}

fn packed(trigram: &[char]) -> u64 {
    trigram.iter().fold(0, |packed, letter| packed << 21 | u64::from(*letter))
}

/// Each of `items` once, and how often it is there.
fn counted<T: Copy + Ord>(mut items: Vec<T>) -> Vec<(usize, T)> {
    items.sort_unstable();
    items.chunk_by(T::eq).map(|same| (same.len(), same[0])).collect()
}

/// The script of at least [`MIN_LETTERS`] letters of `text` and of three quarters of all. Han is Chinese and Hiragana all
/// Japanese; a little Kana among Chinese letters leaves open which of both a text is.
fn main_script(text: &str) -> Option<Script> {
    let scripts = CodePointMapData::<Script>::new();
    let script = |letter: char| match scripts.get(letter) {
        Script::Katakana => Script::Hiragana,
        other => other,
    };
    let counts = counted(text.chars().filter(|c| c.is_alphabetic()).map(script).collect());
    let count = |wanted| counts.iter().find(|(_, script)| *script == wanted).map_or(0, |(count, _)| *count);
    let (kana, japanese) = (count(Script::Hiragana), count(Script::Hiragana) + count(Script::Han));
    let (script, letters) = match counts.iter().max()?.1 {
        Script::Hiragana | Script::Han if kana * 5 > japanese => (Script::Hiragana, japanese),
        Script::Hiragana | Script::Han if kana * 50 > japanese => return None,
        Script::Hiragana | Script::Han => (Script::Han, japanese),
        other => (other, count(other)),
    };
    let all = counts.iter().map(|(count, _)| count).sum::<usize>();
    (letters >= MIN_LETTERS && letters * 4 >= all * 3).then_some(script)
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
        let codes = counted(SCRIPTS.values().flat_map(|languages| &languages.codes).copied().collect());
        assert_eq!(codes.len(), 70);
        for (count, code) in codes {
            assert!(code.len() == 2 && code.bytes().all(|byte| byte.is_ascii_lowercase()), "{code}");
            assert_eq!((count, Language::from_code(code).map(Language::code)), (1, Some(code)));
        }
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
