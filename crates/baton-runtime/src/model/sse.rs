//! Server-sent events out of bytes as they come, cut anywhere. Lines and events are bounded.

/// One event: its name (empty where it has none) and its data lines joined.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) data: String,
}

/// No provider sends an event near this size.
const MAX_EVENT: usize = 32 << 20;

#[derive(Debug, Default)]
pub(super) struct Parser {
    /// The bytes of a line that is not whole yet.
    line: Vec<u8>,
    name: String,
    data: String,
    has_data: bool,
    /// The last line ended with a carriage return: a line feed that follows belongs to it.
    after_cr: bool,
}

impl Parser {
    /// Takes bytes and gives the events that they complete.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Result<Vec<Event>, String> {
        let mut events = Vec::new();
        if self.after_cr && bytes.first() == Some(&b'\n') {
            bytes = &bytes[1..];
        }
        self.after_cr = false;
        while let Some(end) = bytes.iter().position(|b| matches!(b, b'\n' | b'\r')) {
            self.line.extend_from_slice(&bytes[..end]);
            let is_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            match (is_cr, bytes.first()) {
                (true, Some(b'\n')) => bytes = &bytes[1..],
                (true, None) => self.after_cr = true,
                _ => {}
            }
            let line = std::mem::take(&mut self.line);
            let line =
                std::str::from_utf8(&line).map_err(|_| "the stream is not UTF-8".to_owned())?;
            events.extend(self.take_line(line));
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() + self.data.len() > MAX_EVENT {
            return Err(format!("an event is larger than {MAX_EVENT} bytes"));
        }
        Ok(events)
    }

    /// Whether nothing is left of an event that was begun.
    pub(super) fn is_clean(&self) -> bool {
        self.line.is_empty() && !self.has_data
    }

    fn take_line(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            let event = Event {
                name: std::mem::take(&mut self.name),
                data: std::mem::take(&mut self.data),
            };
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.data.push_str(value);
                self.has_data = true;
            }
            // Comments keep a connection alive; ids and retry times are not for us.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, Parser};

    const STREAM: &str = ": hello\nevent: a\ndata: 1\ndata: 二\n\ndata:x\r\n\r\nevent: c\rdata: y\r\rid: 9\n\ndata\n\n";

    fn events(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut parser = Parser::default();
        let all = chunks.iter().flat_map(|chunk| parser.feed(chunk).unwrap());
        all.map(|Event { name, data }| (name, data)).collect()
    }

    #[test]
    fn events_are_the_same_wherever_the_stream_is_cut() {
        let bytes = STREAM.as_bytes();
        let whole = events(&[bytes]);
        let expected = [("a", "1\n二"), ("", "x"), ("c", "y"), ("", "")];
        assert_eq!(whole, expected.map(|(name, data)| (name.to_owned(), data.to_owned())));
        for first in 0..=bytes.len() {
            assert_eq!(events(&[&bytes[..first], &bytes[first..]]), whole, "{first}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(events(&single), whole);
    }

    #[test]
    fn a_stream_that_is_not_utf8_or_endless_is_refused() {
        assert!(Parser::default().feed(b"data: \xff\n").is_err());
        let mut parser = Parser::default();
        let chunk = vec![b'x'; 1 << 20];
        assert!((0..40).any(|_| parser.feed(&chunk).is_err()));
        let mut parser = Parser::default();
        parser.feed(b"data: 1\n").unwrap();
        assert!(!parser.is_clean());
    }
}
