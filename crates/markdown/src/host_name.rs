//! The length of host names.

use percent_encoding::percent_decode_str;

/// In letters (RFC 1035 counts bytes).
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// `text` may be percent-encoded. Decoders of host names take time in the square of a label's length.
pub fn is_short_enough(text: &str) -> bool {
    if text.len() <= MAX_LABEL {
        return true;
    }
    let name = percent_decode_str(text).decode_utf8_lossy();
    // Dots by the URL standard.
    let mut labels = name.split(['.', '\u{3002}', '\u{ff0e}', '\u{ff61}']);
    let is_longer = |text: &str, most: usize| text.chars().nth(most).is_some();
    !is_longer(name.trim_end_matches('.'), MAX_NAME) && labels.all(|label| !is_longer(label, MAX_LABEL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_63_letters_and_a_name_253_however_they_are_written() {
        for (letter, dot) in [("a", "."), ("ä", "。"), ("%C3%A4", "%2E"), ("%61", "．"), ("一", "｡")] {
            let name = |letters: usize, labels: usize| vec![letter.repeat(letters); labels].join(dot);
            assert!(is_short_enough(&name(63, 1)) && !is_short_enough(&name(64, 1)), "{letter}");
            assert!(is_short_enough(&name(1, 127)) && !is_short_enough(&name(1, 128)), "{letter}");
        }
        assert!(is_short_enough("") && is_short_enough("[2001:db8::1]") && is_short_enough("example.org."));
    }
}
