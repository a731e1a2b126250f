//! Every style sheet is read by the parser of a browser, because a browser skips what it cannot read and says nothing.

use std::fs;

use cssparser::{ParseError, Parser, Token};
use walkdir::WalkDir;

/// A rule at the very end. If a block before it is not closed, it is no rule of the style sheet itself.
const LAST: &str = "\nlast-rule { color: red }";

type Read<T> = Result<T, ParseError<String>>;

/// Reads rules until the end of `input`. Returns the beginning of the last one.
fn rules(input: &mut Parser<'_>) -> Read<String> {
    let mut last = String::new();
    while !input.is_exhausted() {
        let mut token = input.next()?.clone();
        let holds_rules = matches!(&token, Token::AtKeyword(name) if matches!(&**name, "media" | "supports"));
        last = match &token {
            Token::Ident(name) | Token::AtKeyword(name) => name.to_string(),
            _ => String::new(),
        };
        while token != Token::CurlyBracketBlock {
            if token.is_parse_error() || token == Token::Semicolon {
                return Err(ParseError::custom(format!("{token:?} before the block of a rule")));
            }
            token = input.next()?.clone();
        }
        input.parse_nested_block(|block| if holds_rules { rules(block).map(drop) } else { declarations(block) })?;
    }
    Ok(last)
}

/// Reads declarations until the end of `input`.
fn declarations(input: &mut Parser<'_>) -> Read<()> {
    while !input.is_exhausted() {
        let name = input.expect_ident()?.to_string();
        input.expect_colon()?;
        let mut length = 0;
        while let Ok(token) = input.next().cloned() {
            match token {
                Token::Semicolon => break,
                Token::CurlyBracketBlock => return Err(ParseError::custom(format!("a block in {name}"))),
                _ if token.is_parse_error() => return Err(ParseError::custom(format!("{token:?} in {name}"))),
                _ => length += 1,
            }
        }
        if length == 0 {
            return Err(ParseError::custom(format!("{name} has no value")));
        }
    }
    Ok(())
}

fn check(style: &str) -> Result<(), String> {
    let style = format!("{style}{LAST}");
    let mut input = Parser::new(&style);
    match rules(&mut input) {
        Ok(last) if last == "last-rule" => Ok(()),
        Ok(last) => Err(format!("a block is not closed, at the latest that of {last}")),
        Err(error) => Err(format!("line {}: {:?}", input.current_source_location().line + 1, error.kind)),
    }
}

#[test]
fn every_style_sheet_is_read_to_its_end() {
    let mut read = 0;
    for file in WalkDir::new("src").into_iter().map(Result::unwrap) {
        if file.path().extension().is_some_and(|extension| extension == "css") {
            let style = fs::read_to_string(file.path()).unwrap();
            assert_eq!(check(&style), Ok(()), "{}", file.path().display());
            read += 1;
        }
    }
    assert!(read >= 2, "{read}");
}

#[test]
fn a_style_sheet_with_a_slip_is_refused() {
    assert_eq!(check("a { color: red; } @media print { b, i::after { margin: 0 calc(1px + 2px) } }"), Ok(()));
    for slip in [
        "a { color: red } }",
        "@media print { a { color: red }",
        "a { color: red; b { margin: 0 } }",
        "a { color red }",
        "a { color: }",
        "a { color: rgb(1, 2, 3; }",
        "a { color: red",
        "a; b { color: red }",
        "a { content: \"x\n }",
    ] {
        assert!(check(slip).is_err(), "{slip}");
    }
}
