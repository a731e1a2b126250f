//! Hexadecimal digits of bytes.

pub fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// `None` unless all are digits in pairs.
pub fn decode(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| if let [high, low] = *pair { Some(value(high)? << 4 | value(low)?) } else { None }).collect()
}

fn value(digit: u8) -> Option<u8> {
    u8::try_from(char::from(digit).to_digit(16)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_two_digits_that_are_read_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        let digits = encode(&bytes);
        assert!(digits.starts_with("000102") && digits.ends_with("fdfeff") && digits.len() == 512, "{digits}");
        assert_eq!(decode(&digits), Some(bytes.clone()));
        assert_eq!(decode(&digits.to_uppercase()), Some(bytes));
        assert_eq!(decode(""), Some(Vec::new()));
    }

    #[test]
    fn text_that_is_no_pairs_of_digits_is_refused() {
        for wrong in ["0", "abc", "0g", "+f", "-1", " 1", "ä", "a\u{301}"] {
            assert_eq!(decode(wrong), None, "{wrong:?}");
        }
    }
}
