//! Detects the language of a text, if the detector is sure (contract decision 13).
//!
//! A wrong language does more harm than none.

use whatlang::{Script, detect, detect_script};

/// With fewer letters in the main script, the guess is wrong too often.
const MIN_LETTERS: usize = 50;

/// With 600 letters, 6 % of 23 356 texts in 481 languages got another language or none.
const MAX_LETTERS: usize = 1000;

const MAX_BYTES: usize = 16 * 1024;

/// BCP 47 (RFC 5646 §4.1).
pub const UNDETERMINED: &str = "und";

/// Each language's ISO 639-3 code, then its shortest BCP 47 code.
const CODES: &str = "afr af aka ak amh am ara ar aze az bel be ben bn bul bg cat ca ces cs cmn zh cym cy dan da deu de \
    ell el eng en epo eo est et fin fi fra fr guj gu heb he hin hi hrv hr hun hu hye hy ind id ita it jav jv jpn ja \
    kan kn kat ka khm km kor ko lat la lav lv lit lt mal ml mar mr mkd mk mya my nep ne nld nl nob nb ori or pan pa \
    pes fa pol pl por pt ron ro rus ru sin si slk sk slv sl sna sn spa es srp sr swe sv tam ta tel te tgl tl tha th \
    tuk tk tur tr ukr uk urd ur uzb uz vie vi yid yi zul zu";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Language(&'static str);

impl Language {
    pub fn from_code(code: &str) -> Option<Self> {
        codes().map(|(_, known)| known).find(|known| *known == code).map(Self)
    }

    pub fn code(self) -> &'static str {
        self.0
    }

    pub(super) fn of(sample: &Sample) -> Option<Self> {
        let mut text = String::with_capacity(sample.text.len() + 1);
        for word in sample.text.split_whitespace().filter(|word| !is_address(word)) {
            text.push_str(word);
            text.push(' ');
        }
        let found = detect(text.trim_end()).filter(whatlang::Info::is_reliable)?;
        // One Greek letter in a long text of an unknown script makes the detector sure of Greek.
        let mut letters = 0;
        let mut of_script = 0;
        for word in text.split(' ') {
            let count = word.chars().filter(|c| c.is_alphabetic()).count();
            let is_of_script = detect_script(word).is_some_and(|script| writing(script) == writing(found.script()));
            letters += count;
            of_script += if is_of_script { count } else { 0 };
        }
        let is_sure = of_script >= MIN_LETTERS && of_script * 4 >= letters * 3;
        codes().find(|(long, _)| is_sure && *long == found.lang().code()).map(|(_, code)| Self(code))
    }
}

fn codes() -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut all = CODES.split_whitespace();
    std::iter::from_fn(move || Some((all.next()?, all.next()?)))
}

/// Japanese uses three scripts at once.
fn writing(script: Script) -> Script {
    if matches!(script, Script::Mandarin | Script::Katakana) { Script::Hiragana } else { script }
}

fn is_address(word: &str) -> bool {
    word.contains("://") || word.contains('@') || word.starts_with("www.")
}

/// The beginning of a text, without code and addresses.
#[derive(Default)]
pub(super) struct Sample {
    text: String,
    letters: usize,
}

impl Sample {
    pub(super) fn push(&mut self, text: &str) {
        for character in text.chars() {
            if self.letters >= MAX_LETTERS || self.text.len() >= MAX_BYTES {
                break;
            }
            self.text.push(character);
            self.letters += usize::from(character.is_alphabetic());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render;

    const ENGLISH: &str = "The committee will publish its findings next week, and everybody may read them.";
    const GERMAN: &str =
        "Der Ausschuss wird seine Ergebnisse nächste Woche veröffentlichen, und alle dürfen sie lesen.";
    const TIBETAN: &str = "བོད་ཀྱི་སྐད་ཡིག་ནི་བོད་མི་རིགས་ཀྱི་སྐད་ཡིག་ཡིན། དེ་ནི་ས་ཆ་མང་པོར་བེད་སྤྱོད་གཏོང་གི་ཡོད།";

    fn code(markdown: &str) -> &'static str {
        render(markdown).language.map_or(UNDETERMINED, Language::code)
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
            assert_eq!(code(text), expected, "{text}");
        }
    }

    #[test]
    fn a_text_of_fewer_than_50_letters_has_no_language() {
        fn letters(text: &str) -> usize {
            text.chars().filter(|c| c.is_alphabetic()).count()
        }

        let fifty = "Die Ordnung muss für immer in diesem Codebase bleiben, ja";
        let short: String = fifty.chars().take(54).collect();
        assert!(letters(&short) < 50 && letters(&format!("{fifty} so wie sie ist")) >= 50);
        assert_eq!(code(&format!("{short} 1234567890 1234567890")), UNDETERMINED);
        assert_eq!(code(&format!("{fifty} so wie sie ist")), "de");
    }

    #[test]
    fn code_and_addresses_do_not_count() {
        let only_code = format!("Hallo\n\n```text\n{ENGLISH}\n```\n\n`{ENGLISH}`");
        assert_eq!(code(&only_code), UNDETERMINED);
        assert_eq!(code(&format!("{GERMAN}\n\n{only_code}")), "de");
        let addresses =
            "https://pages.example/the/committee/will/publish press.office@committee.pages.example ".repeat(5);
        assert_eq!(code(&format!("{addresses}\n[x](/the-committee-will-publish-its-findings)")), UNDETERMINED);
    }

    #[test]
    fn a_text_that_no_language_is_sure_of_has_none() {
        for text in
            ["xkcd qwrt zxcv bnmp lkjh ".repeat(4), "a ".repeat(100), TIBETAN.to_owned(), format!("{TIBETAN} \u{3b1}")]
        {
            assert_eq!(code(&text), UNDETERMINED, "{text}");
        }
        let mixed = format!("{ENGLISH}\n\nКомиссия опубликует свои выводы на следующей неделе, и каждый сможет.");
        assert_eq!(code(&mixed), UNDETERMINED);
    }

    #[test]
    fn the_beginning_of_a_long_text_decides() {
        assert_eq!(code(&format!("{}\n\n{}", GERMAN.repeat(100), ENGLISH.repeat(1000))), "de");
    }

    #[test]
    fn every_language_has_its_shortest_code_and_no_other_is_known() {
        assert_eq!(codes().count(), whatlang::Lang::all().len());
        for lang in whatlang::Lang::all() {
            let code = codes().find(|(long, _)| *long == lang.code()).map_or("", |(_, code)| code);
            assert!(code.len() == 2 && code.bytes().all(|byte| byte.is_ascii_lowercase()), "{lang:?}");
            assert_eq!(Language::from_code(code).map(Language::code), Some(code));
        }
        for other in ["", "und", "deu", "EN", "x\"y"] {
            assert_eq!(Language::from_code(other), None, "{other}");
        }
    }
}
