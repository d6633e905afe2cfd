//! JSON text to a tree with places. Strict: RFC 8259, no duplicate keys, bounded depth, no numbers
//! that do not fit, no lone surrogates, one value and nothing around it.

use std::collections::BTreeSet;

use super::{Bounds, Key, MAX_DEPTH, Node, Span, Value};
use crate::messages::Language;
use crate::problem::Problem;
use crate::text;

type Parsed<T> = Result<T, (usize, Problem)>;

pub(super) fn parse(source: &str, bounds: Bounds) -> Parsed<Node> {
    let bom = if source.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut parser = Parser { source, bytes: source.as_bytes(), at: bom, bounds, values: 0 };
    parser.skip_space();
    let node = parser.value(0)?;
    parser.skip_space();
    if parser.at < source.len() {
        let rest = &source[parser.at..];
        let shown = text::shown(rest, 40);
        let problem = Problem::localized("json-trailing", |language| match rest.as_bytes() {
            [b'{' | b'[', ..] => language.json_second_value(&shown),
            _ => language.json_text_after(&shown),
        });
        return Err((parser.at, problem.found(rest).expecting(Language::json_nothing_more)));
    }
    Ok(node)
}

struct Parser<'a> {
    source: &'a str,
    bytes: &'a [u8],
    at: usize,
    bounds: Bounds,
    /// Read so far.
    values: usize,
}

impl Parser<'_> {
    fn skip_space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Parsed<Node> {
        let start = self.at;
        if depth > MAX_DEPTH {
            let problem =
                Problem::localized("json-depth", |language| language.json_too_deep(MAX_DEPTH));
            return Err((start, problem));
        }
        if self.values == self.bounds.values {
            let most = self.bounds.values;
            let problem = Problem::localized("json-too-many-values", |language| {
                language.json_too_many_values(most)
            });
            return Err((start, problem));
        }
        self.values += 1;
        let value = match self.bytes.get(self.at) {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b'"') => Value::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.word("true", Value::Bool(true))?,
            Some(b'f') => self.word("false", Value::Bool(false))?,
            Some(b'n') => self.word("null", Value::Null)?,
            _ => return Err(self.unexpected(Language::json_value)),
        };
        Ok(Node { span: self.span(start), value })
    }

    fn object(&mut self, depth: usize) -> Parsed<Value> {
        self.at += 1;
        let mut entries: Vec<(Key, Node)> = Vec::new();
        self.skip_space();
        if self.eat(b'}') {
            return Ok(Value::Object(entries));
        }
        loop {
            self.skip_space();
            let start = self.at;
            if self.bytes.get(self.at) != Some(&b'"') {
                return Err(self.unexpected(Language::json_key));
            }
            if entries.len() == self.bounds.keys {
                let most = self.bounds.keys;
                let problem = Problem::localized("json-too-many-keys", |language| {
                    language.json_too_many_keys(most)
                });
                return Err((start, problem));
            }
            let name = self.string()?;
            let key = Key { span: self.span(start), name };
            self.skip_space();
            if !self.eat(b':') {
                return Err(self.unexpected(Language::json_colon));
            }
            self.skip_space();
            let value = self.value(depth + 1)?;
            entries.push((key, value));
            self.skip_space();
            if self.eat(b'}') {
                break;
            }
            if !self.eat(b',') {
                return Err(self.unexpected(|language| language.json_comma_or('}')));
            }
        }
        no_duplicates(&entries)?;
        Ok(Value::Object(entries))
    }

    fn array(&mut self, depth: usize) -> Parsed<Value> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_space();
        if self.eat(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            self.skip_space();
            items.push(self.value(depth + 1)?);
            self.skip_space();
            if self.eat(b']') {
                return Ok(Value::Array(items));
            }
            if !self.eat(b',') {
                return Err(self.unexpected(|language| language.json_comma_or(']')));
            }
        }
    }

    fn string(&mut self) -> Parsed<String> {
        let open = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.bytes[self.at..];
            let plain = rest.iter().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f));
            let Some(plain) = plain else {
                let problem = Problem::localized("json-syntax", Language::json_string_open);
                return Err((open, problem.expecting(Language::json_string_end)));
            };
            out.push_str(&self.source[self.at..self.at + plain]);
            self.at += plain;
            match self.bytes[self.at] {
                b'"' => {
                    self.at += 1;
                    return Ok(out);
                }
                b'\\' => out.push(self.escape()?),
                _ => return Err(self.unexpected(Language::json_control_character)),
            }
        }
    }

    fn escape(&mut self) -> Parsed<char> {
        let start = self.at;
        let wrong = |message: &dyn Fn(Language) -> String| {
            let problem = Problem::localized("json-escape", message);
            (start, problem.expecting(Language::json_escapes))
        };
        self.at += 2;
        let simple = match self.bytes.get(start + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let high = self.hex().ok_or_else(|| wrong(&Language::json_escape_digits))?;
                let code = match high {
                    0xD800..=0xDBFF => self
                        .low_surrogate()
                        .map(|low| 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)),
                    other => Some(other),
                };
                return code.and_then(char::from_u32).ok_or_else(|| {
                    let code = format!("{high:04x}");
                    let (at, problem) = wrong(&|language| language.json_half_pair(&code));
                    (at, problem.expecting(Language::json_both_halves))
                });
            }
            None => {
                let problem = Problem::localized("json-syntax", Language::json_ends_in_escape);
                return Err((start, problem));
            }
            Some(_) => {
                let next = self.source[start + 1..].chars().next().unwrap_or(' ');
                let shown = text::shown(&next.to_string(), 4);
                return Err(wrong(&|language| language.json_not_escape(&shown)));
            }
        };
        Ok(simple)
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.bytes.get(self.at..self.at + 4)?;
        let mut code = 0;
        for digit in digits {
            code = code * 16 + char::from(*digit).to_digit(16)?;
        }
        self.at += 4;
        Some(code)
    }

    fn low_surrogate(&mut self) -> Option<u32> {
        if self.bytes.get(self.at..self.at + 2) != Some(b"\\u") {
            return None;
        }
        self.at += 2;
        self.hex().filter(|low| (0xDC00..=0xDFFF).contains(low))
    }

    fn number(&mut self) -> Parsed<Value> {
        let start = self.at;
        self.eat(b'-');
        let whole = self.digits();
        let leading_zero = whole > 1 && self.bytes[self.at - whole] == b'0';
        let mut is_integer = true;
        let mut ok = whole > 0 && !leading_zero;
        if self.eat(b'.') {
            is_integer = false;
            ok &= self.digits() > 0;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            is_integer = false;
            self.at += 1;
            if !self.eat(b'+') {
                self.eat(b'-');
            }
            ok &= self.digits() > 0;
        }
        let raw = &self.source[start..self.at];
        let shown = text::shown(raw, 40);
        let wrong = |message: &dyn Fn(Language) -> String| {
            Err((start, Problem::localized("json-number", message).found(raw)))
        };
        if !ok {
            return wrong(&|language| language.json_number_form(&shown));
        }
        if is_integer && let Ok(value) = raw.parse() {
            return Ok(Value::Integer(value));
        }
        match raw.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Value::Float(value)),
            _ => wrong(&|language| language.json_number_range(&shown)),
        }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        self.at - start
    }

    fn word(&mut self, word: &str, value: Value) -> Parsed<Value> {
        if self.source[self.at..].starts_with(word) {
            self.at += word.len();
            return Ok(value);
        }
        Err(self.unexpected(Language::json_value))
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn span(&self, start: usize) -> Span {
        Span { source: 0, start, end: self.at }
    }

    fn unexpected(&self, expected: impl Fn(Language) -> String) -> (usize, Problem) {
        let rest = &self.source[self.at..];
        let problem = if rest.is_empty() {
            Problem::localized("json-syntax", Language::json_ends_early)
        } else {
            // A line break itself may be what is wrong; it is shown as `\n`.
            let end = rest.find(['\n', '\r']).unwrap_or(rest.len()).max(1);
            let found = text::shown(&rest[..end], 40);
            Problem::localized("json-syntax", |language| language.json_unexpected(&found))
                .found(rest)
        };
        (self.at, problem.expecting(expected))
    }
}

fn no_duplicates(entries: &[(Key, Node)]) -> Parsed<()> {
    let mut seen = BTreeSet::new();
    for (key, _) in entries {
        if !seen.insert(key.name.as_str()) {
            let shown = text::shown(&key.name, 40);
            let problem =
                Problem::localized("json-duplicate-key", |language| language.key_twice(&shown));
            return Err((key.span.start, problem.found(&key.name)));
        }
    }
    Ok(())
}
