//! Lines, key lines, code fences and safe display: the little that every grammar here shares.
//! All functions are linear and never cut inside a character.

use std::borrow::Cow;
use std::fmt::Write as _;

/// One line without its terminator (`\n`, `\r\n` or a lone `\r`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// From 1.
    pub number: u32,
    /// Byte offset of its first character in the whole text.
    pub start: usize,
    pub text: &'a str,
}

impl Line<'_> {
    /// Byte offset behind the line's last character, before its terminator.
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// A byte order mark at the start is not part of the first line.
pub fn lines(source: &str) -> impl Iterator<Item = Line<'_>> {
    let mut at = if source.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut number = 0;
    std::iter::from_fn(move || {
        if at >= source.len() {
            return None;
        }
        let start = at;
        let rest = &source.as_bytes()[start..];
        let length = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let terminator = match (rest.get(length), rest.get(length + 1)) {
            (Some(b'\r'), Some(b'\n')) => 2,
            (Some(_), _) => 1,
            (None, _) => 0,
        };
        at = start + length + terminator;
        number += 1;
        Some(Line { number, start, text: &source[start..start + length] })
    })
}

/// Follows ``` and ~~~ fences from line to line.
#[derive(Debug, Default)]
pub struct Fence {
    open: Option<(char, usize, u32)>,
}

impl Fence {
    /// Whether this line belongs to a fenced block, its delimiters included.
    pub fn covers(&mut self, line: Line<'_>) -> bool {
        let mut body = line.text.trim_start();
        if self.open.is_none() {
            // A fence may open behind a list mark: `- ````.
            body = list_mark(body).map_or(body, |length| body[length..].trim_start());
        }
        let Some(mark) = body.chars().next().filter(|c| matches!(c, '`' | '~')) else {
            return self.open.is_some();
        };
        let length = body.chars().take_while(|c| *c == mark).count();
        let after = &body[length..];
        match self.open {
            Some((open, needed, _)) => {
                if mark == open && length >= needed && after.trim().is_empty() {
                    self.open = None;
                }
                true
            }
            // As in CommonMark, a backtick in the info string means inline code, not a fence.
            None if length >= 3 && !(mark == '`' && after.contains('`')) => {
                self.open = Some((mark, length, line.number));
                true
            }
            None => false,
        }
    }

    /// The line that would close the fence we are in.
    pub fn closing(&self) -> Option<String> {
        self.open.map(|(mark, length, _)| mark.to_string().repeat(length))
    }

    /// The line that opened the fence we are in.
    pub fn opened_at(&self) -> Option<u32> {
        self.open.map(|(_, _, line)| line)
    }
}

/// A fenced block of a text: its info string and its body.
#[derive(Debug, PartialEq, Eq)]
pub struct Block<'a> {
    pub info: &'a str,
    /// The line of the first body line.
    pub line: u32,
    pub body: &'a str,
}

pub fn fenced_blocks(source: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut fence = Fence::default();
    let mut open: Option<(Line<'_>, usize)> = None;
    for line in lines(source) {
        let was_open = fence.opened_at().is_some();
        fence.covers(line);
        let is_open = fence.opened_at().is_some();
        if is_open && !was_open {
            let after =
                source[line.end()..].find('\n').map_or(source.len(), |n| line.end() + n + 1);
            open = Some((line, after));
        } else if was_open
            && !is_open
            && let Some((first, body_start)) = open.take()
        {
            let info = first.text.trim_start().trim_start_matches(['`', '~']).trim();
            let body = &source[body_start.min(line.start)..line.start];
            blocks.push(Block { info, line: first.number + 1, body });
        }
    }
    blocks
}

/// What stands behind the prefix of a key line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyLine<'a> {
    pub value: &'a str,
    /// Byte offset of the value in the line.
    pub value_at: usize,
    /// Characters before the first mark or word.
    pub indent: usize,
    /// The key line is itself a list item.
    pub is_item: bool,
}

/// Reads a key line: after spaces, list or emphasis marks, the prefix; `:` and `：` are equal.
/// Emphasis that opens before the prefix may close behind it or at the end of the line.
pub fn key_line<'a>(line: &'a str, prefix: &str) -> Option<KeyLine<'a>> {
    let marks = leading_marks(line);
    let rest = &line[marks.length..];
    let (behind, is_closed) = strip_prefix(rest, prefix, marks.emphasis)?;
    let mut value = behind.trim();
    if !marks.emphasis.is_empty() && !is_closed {
        value = value
            .strip_prefix(marks.emphasis)
            .or_else(|| value.strip_suffix(marks.emphasis))
            .unwrap_or(value)
            .trim();
    }
    let value_at = if value.is_empty() { line.len() } else { offset_in(line, value) };
    Some(KeyLine { value, value_at, indent: marks.indent, is_item: marks.is_item })
}

/// Whether a line comes so near to a key line that its writer must have meant one.
pub fn almost_key_line(line: &str, prefix: &str) -> bool {
    let stem = prefix.trim_end_matches([':', '：']).trim();
    let mut rest = line
        .trim_start_matches(|c: char| !c.is_alphanumeric())
        .chars()
        .filter(|c| !is_invisible(*c) && !matches!(c, '*' | '_' | '`' | '】' | ']' | '」'));
    let same = stem.chars().filter(|c| !matches!(c, '_')).all(|wanted| {
        rest.next().is_some_and(|found| wanted.to_lowercase().eq(found.to_lowercase()))
    });
    same && rest.find(|c| !c.is_whitespace()).is_none_or(|c| matches!(c, ':' | '：' | '=' | '-'))
}

/// The text of a list item (`-`, `*`, `+`, `•`, `1.`, `1)`), with the item's indentation.
pub fn list_item(line: &str) -> Option<(usize, &str)> {
    let trimmed = line.trim_start();
    let indent = line[..line.len() - trimmed.len()].chars().count();
    list_mark(trimmed).map(|length| (indent, trimmed[length..].trim()))
}

pub fn indent(line: &str) -> usize {
    line.chars().take_while(|c| c.is_whitespace()).count()
}

/// Whether a reader would see nothing.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c.is_control() || is_invisible(c))
}

/// Removes emphasis or code marks that wrap a whole word: `**X**`, `` `X` ``, `_X_`.
pub fn unwrapped(word: &str) -> &str {
    let mut word = word.trim();
    for _ in 0..4 {
        let Some(mark) = word.chars().next().filter(|c| matches!(c, '*' | '_' | '`')) else {
            break;
        };
        match word.strip_prefix(mark).and_then(|inner| inner.strip_suffix(mark)) {
            Some(inner) if !inner.is_empty() => word = inner.trim(),
            _ => break,
        }
    }
    word
}

/// One line that is safe on a terminal: control, bidi and zero-width characters are escaped, the
/// rest is cut to `max` characters, said with `…`.
pub fn shown(raw: &str, max: usize) -> String {
    let mut out = String::with_capacity(raw.len().min(max * 4));
    for (count, c) in raw.chars().enumerate() {
        if count == max {
            out.push('…');
            break;
        }
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || is_invisible(c) => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// As `shown`, but whole and with its line breaks and tabs. An emoji keeps its presentation mark.
pub fn escaped(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    for c in raw.chars() {
        let is_presentation = c == '\u{fe0f}'
            && out.ends_with(|before: char| !before.is_alphanumeric() && !before.is_ascii());
        if matches!(c, '\n' | '\t') || is_presentation || !(c.is_control() || is_invisible(c)) {
            out.push(c);
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        }
    }
    out
}

/// As it goes into a prompt: without terminal escapes, other control characters and marks that a
/// reader cannot see. What joins letters and emoji stays.
pub fn stripped(raw: &str) -> Cow<'_, str> {
    let is_kept = |c: char| match c {
        '\n' | '\t' | '\u{200c}' | '\u{200d}' | '\u{fe0f}' => true,
        c => !(c.is_control() || is_invisible(c)),
    };
    // Most texts are plain and go into every prompt: they are looked at in blocks.
    let is_plain = |b: &u8| matches!(b, 0x20..0x7f | b'\n' | b'\t');
    let is_plain_block = |block: &[u8]| block.iter().fold(true, |all, b| all & is_plain(b));
    let blocks = raw.as_bytes().chunks(64);
    let plain = blocks.take_while(|block| is_plain_block(block)).map(<[u8]>::len).sum();
    if raw[plain..].chars().all(is_kept) {
        return Cow::Borrowed(raw);
    }
    let unified = raw.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(unified.len());
    let mut rest = unified.as_str();
    while let Some(at) = rest.find(|c: char| !is_kept(c)) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = &rest[escape_length(rest)..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The length of the terminal escape that a text begins with, or of its first character.
fn escape_length(text: &str) -> usize {
    let first = text.chars().next().map_or(0, char::len_utf8);
    let control_sequence = |from: usize| {
        let bytes = text.as_bytes();
        let parameters = bytes[from..].iter().take_while(|b| (0x20..0x40).contains(*b)).count();
        let last = bytes.get(from + parameters);
        if last.is_some_and(|b| (0x40..0x7f).contains(b)) { from + parameters + 1 } else { from }
    };
    // A title or a link. One without an end would swallow the text behind it: the first thing that
    // cannot be part of it stops the look.
    let string = |from: usize| {
        const LONGEST: usize = 2_000;
        let stops = |c: char| matches!(c, '\u{7}' | '\u{1b}' | '\u{9c}' | '\n');
        let found = text[from..].char_indices().take(LONGEST).find(|(_, c)| stops(*c));
        match found {
            Some((at, '\u{7}')) => from + at + 1,
            Some((at, '\u{9c}')) => from + at + '\u{9c}'.len_utf8(),
            Some((at, '\u{1b}')) if text[from + at + 1..].starts_with('\\') => from + at + 2,
            _ => from,
        }
    };
    match text.as_bytes() {
        [0x1b, b'[', ..] => control_sequence(2),
        [0x1b, b']' | b'P' | b'X' | b'^' | b'_', ..] => string(2),
        [0x1b, b'(' | b')' | b'#', 0x20..0x7f, ..] => 3,
        [0x1b, 0x30..0x7f, ..] => 2,
        _ if text.starts_with('\u{9b}') => control_sequence(first),
        _ if text.starts_with('\u{9d}') => string(first),
        _ => first,
    }
}

/// A fence that no line of the body can close.
pub fn fence_for(body: &str) -> String {
    "`".repeat((longest_run(body) + 1).max(3))
}

/// A text without the one code fence around all of it, or as it is. What comes back begins with the
/// line feed of the opening line, so that line numbers stay those of the source.
///
/// Blocks inside count as part of the text where each opens with an info string: a bare
/// fence line could as well end the outer one.
pub fn without_fence(source: &str) -> &str {
    let body = source.trim_end();
    let start = body.len() - body.trim_start().len();
    let Some((opening, rest)) = body[start..].split_once('\n') else { return source };
    let Some((mark, length)) = fence_mark(opening) else { return source };
    let Some((inner, closing)) = rest.rsplit_once('\n') else { return source };
    let is_bare = |line: &str, (mark, length): (char, usize)| {
        fence_mark(line).is_some_and(|(own, size)| own == mark && size >= length)
            && line.trim().chars().all(|c| c == mark)
    };
    if opening.starts_with([' ', '\t']) || !is_bare(closing, (mark, length)) {
        return source;
    }
    let mut open: Option<(char, usize)> = None;
    for line in inner.lines() {
        match open {
            Some(block) if is_bare(line, block) => open = None,
            Some(_) => {}
            None if is_bare(line, (mark, length)) => return source,
            None => open = fence_mark(line).filter(|block| !is_bare(line, *block)),
        }
    }
    match open {
        Some(_) => source,
        None => &body[start + opening.len()..body.len() - closing.len()],
    }
}

/// The mark and the length of a fence line.
fn fence_mark(line: &str) -> Option<(char, usize)> {
    let body = line.trim_start();
    let mark = body.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = body.chars().take_while(|c| *c == mark).count();
    let is_inline = mark == '`' && body[length..].contains('`');
    (length >= 3 && !is_inline).then_some((mark, length))
}

/// How many backticks stand in a row at most.
pub fn longest_run(body: &str) -> usize {
    let (mut longest, mut run, mut next) = (0, 0, 0);
    for at in memchr::memchr_iter(b'`', body.as_bytes()) {
        run = if at == next { run + 1 } else { 1 };
        next = at + 1;
        longest = longest.max(run);
    }
    longest
}

/// At most `max` characters; what was cut is said with `…`, which counts.
pub fn cut(text: &str, max: usize) -> Cow<'_, str> {
    let Some((end, _)) = text.char_indices().nth(max) else { return Cow::Borrowed(text) };
    let keep = text[..end].char_indices().next_back().map_or(0, |(at, _)| at);
    Cow::Owned(format!("{}…", &text[..keep]))
}

/// `1 file`, `2 files`.
pub fn counted(count: usize, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        _ => format!("{count} {thing}s"),
    }
}

/// Markdown without its comments and without headings that have nothing under them: a template that
/// was not filled in is empty. Code fences stay as they are.
pub fn without_empty_parts(source: &str) -> String {
    let mut kept: Vec<Part<'_>> = Vec::new();
    let mut fence = Fence::default();
    let mut comment_end = 0;
    for line in lines(source) {
        if line.start < comment_end {
            continue;
        }
        if fence.covers(line) {
            kept.push(Part::Text(line.text.into()));
            continue;
        }
        if let Some(length) = comment(&source[line.start..]) {
            comment_end = line.start + length;
            continue;
        }
        let visible: Cow<'_, str> = line.text.into();
        let level = visible.bytes().take_while(|byte| *byte == b'#').count();
        let is_heading = (1..=6).contains(&level) && heading(&visible).is_some();
        match (visible.trim().is_empty(), is_heading) {
            (true, _) if line.text.trim().is_empty() => kept.push(Part::Blank),
            (true, _) => {}
            (false, true) => {
                // A heading of the same or a higher level: the last one had nothing under it.
                while let Some(Part::Heading(own, _)) = kept.iter().rfind(|part| part.is_said()) {
                    if *own < level {
                        break;
                    }
                    let at = kept.iter().rposition(Part::is_said).unwrap_or(0);
                    kept.truncate(at);
                }
                kept.push(Part::Heading(level, visible));
            }
            (false, false) => kept.push(Part::Text(visible)),
        }
    }
    while let Some(at) = kept.iter().rposition(Part::is_said) {
        if matches!(kept[at], Part::Text(_)) {
            break;
        }
        kept.truncate(at);
    }
    let mut out = String::new();
    for part in kept {
        match part {
            Part::Text(text) | Part::Heading(_, text) => out.push_str(&format!("{text}\n")),
            Part::Blank if out.is_empty() || out.ends_with("\n\n") => {}
            Part::Blank => out.push('\n'),
        }
    }
    out.trim_end().to_owned() + if out.trim().is_empty() { "" } else { "\n" }
}

/// A line of Markdown.
enum Part<'a> {
    Heading(usize, Cow<'a, str>),
    Text(Cow<'a, str>),
    Blank,
}

impl Part<'_> {
    fn is_said(&self) -> bool {
        !matches!(self, Part::Blank)
    }
}

/// The length of the comment that a text begins with. It has lines of its own: a mark inside a
/// sentence, or one that is never closed, is text.
fn comment(source: &str) -> Option<usize> {
    let start = source.trim_start_matches([' ', '\t']);
    let inside = start.strip_prefix("<!--")?;
    let end = source.len() - inside.len() + inside.find("-->")? + "-->".len();
    let rest = source[end..].lines().next().unwrap_or_default();
    rest.trim().is_empty().then_some(end)
}

/// The text of a heading (`## What changed`), without its marks.
pub fn heading(line: &str) -> Option<&str> {
    let level = line.bytes().take_while(|b| *b == b'#').count();
    let rest = &line[level..];
    let is_heading = (1..=6).contains(&level) && rest.starts_with([' ', '\t']);
    is_heading.then(|| rest.trim().trim_end_matches('#').trim_end())
}

/// Bidi controls, zero-width characters and other marks that a reader cannot see.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{13430}'..='\u{1345f}' | '\u{16fe4}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d159}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

pub fn is_colon(c: char) -> bool {
    matches!(c, ':' | '：')
}

struct Marks<'a> {
    length: usize,
    indent: usize,
    is_item: bool,
    emphasis: &'a str,
}

fn leading_marks(line: &str) -> Marks<'_> {
    let mut rest = line.trim_start();
    let indent = line[..line.len() - rest.len()].chars().count();
    let mut is_item = false;
    // `- 1. ` is the deepest nesting of marks that anybody writes on one line.
    for _ in 0..2 {
        if let Some(length) = list_mark(rest) {
            is_item = true;
            rest = rest[length..].trim_start();
        }
    }
    let emphasis = match rest.chars().next() {
        Some(mark @ ('*' | '_')) => {
            let run = rest.chars().take_while(|c| *c == mark).count();
            &rest[..run.min(3)]
        }
        _ => "",
    };
    let length = line.len() - rest.len() + emphasis.len();
    Marks { length, indent, is_item, emphasis }
}

/// The length of a list mark with at least one space behind it (or the line's end).
fn list_mark(text: &str) -> Option<usize> {
    let digits = |text: &str| text.bytes().take(4).take_while(u8::is_ascii_digit).count();
    let open = if text.starts_with(['(', '（']) { text.chars().next()?.len_utf8() } else { 0 };
    let number = open + digits(&text[open..]);
    let mark = if number > open {
        let closes = |c: &char| matches!(c, ')' | '）') || (open == 0 && matches!(c, '.' | '、'));
        number + text[number..].chars().next().filter(closes)?.len_utf8()
    } else {
        text.chars().next().filter(|c| matches!(c, '-' | '*' | '+' | '•' | '·'))?.len_utf8()
    };
    // Wide marks hold their own space.
    let is_wide = text[..mark].ends_with(['、', '）', '·']);
    let ends = text[mark..].chars().next().is_none_or(char::is_whitespace);
    (is_wide || ends).then_some(mark)
}

/// What stands behind the prefix, and whether the emphasis was closed before the colon.
fn strip_prefix<'a>(rest: &'a str, prefix: &str, emphasis: &str) -> Option<(&'a str, bool)> {
    let mut found = rest.chars();
    let mut wanted = prefix.trim().chars();
    let mut is_closed = false;
    loop {
        let Some(want) = wanted.next() else { return Some((found.as_str(), is_closed)) };
        // `**verdict**: X`
        if is_colon(want) && !emphasis.is_empty() && found.as_str().starts_with(emphasis) {
            found = found.as_str()[emphasis.len()..].chars();
            is_closed = true;
        }
        let have = found.next()?;
        if have != want && !(is_colon(have) && is_colon(want)) {
            return None;
        }
    }
}

/// `1, 3-9`: numbers in their order, with these words before each.
pub fn ranges(before: &str, numbers: &[u64]) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let run = |(first, last): &(u64, u64)| match first == last {
        true => format!("{before}{first}"),
        false => format!("{before}{first}-{before}{last}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(", ")
}

/// Where `part`, a slice of `whole`, begins in it.
fn offset_in(whole: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize)
}

/// About the first and the last `end` characters, with the number of those between. It cuts between
/// lines unless one of them is too long.
pub fn head_and_tail(raw: &str, end: usize) -> String {
    /// Less is not worth a mark.
    const LEAST: usize = 64;
    let count = raw.chars().count();
    if count <= 2 * end + LEAST {
        return raw.to_owned();
    }
    let border = |at: usize| raw.char_indices().nth(at).map_or(raw.len(), |(byte, _)| byte);
    let (head, tail) = (&raw[..border(end)], &raw[border(count - end)..]);
    let (head, after) = match head.rsplit_once('\n') {
        Some((lines, _)) if lines.len() >= head.len() / 2 => (lines, 1),
        _ => (head, 0),
    };
    let (tail, before) = match tail.split_once('\n') {
        Some((_, lines)) if lines.len() >= tail.len() / 2 => (lines, 1),
        _ => (tail, 0),
    };
    let gone = count - head.chars().count() - tail.chars().count() - after - before;
    format!("{head}\n[... {gone} chars omitted ...]\n{tail}")
}
