//! A recorded session: messages as an agent and its tools exchanged them, whatever program wrote them
//! down. Sizes are estimates (a token for four characters) so that every session is measured alike.

/// Whose words a message holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    System,
    User,
    Assistant,
    /// One tool result.
    Observation,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Act {
    pub name: String,
    /// The values of its arguments, one below the other.
    pub arguments: String,
    /// The text that an edit replaces, word for word: the agent must have it before its eyes.
    pub old: String,
}

impl Act {
    pub fn new(name: impl Into<String>, arguments: impl Into<String>) -> Act {
        Act { name: name.into(), arguments: arguments.into(), old: String::new() }
    }

    #[must_use]
    pub fn replacing(mut self, old: impl Into<String>) -> Act {
        self.old = old.into();
        self
    }

    /// Whether it only tells what the agent plans or thinks: it needs nothing from the history.
    pub fn is_note(&self) -> bool {
        const NOTES: [&str; 13] = [
            "TodoWrite",
            "TaskCreate",
            "TaskUpdate",
            "TaskList",
            "ExitPlanMode",
            "EnterPlanMode",
            "AskUserQuestion",
            "think",
            "sequentialthinking",
            "task_done",
            "finish",
            "submit",
            "Skill",
        ];
        NOTES.contains(&self.name.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub role: Role,
    pub text: String,
    pub acts: Vec<Act>,
    /// Written by the program that was recorded, in place of everything before it.
    pub is_summary: bool,
    pub tokens: u32,
}

impl Message {
    pub fn new(role: Role, text: impl Into<String>, acts: Vec<Act>) -> Message {
        let mut message = Message { role, text: text.into(), acts, is_summary: false, tokens: 0 };
        message.tokens = tokens_of(&message.body());
        message
    }

    pub fn summary(text: impl Into<String>) -> Message {
        Message { is_summary: true, ..Message::new(Role::User, text, Vec::new()) }
    }

    /// All its words: the text, then a line for each act.
    pub fn body(&self) -> std::borrow::Cow<'_, str> {
        if self.acts.is_empty() {
            return self.text.as_str().into();
        }
        let mut body = self.text.clone();
        for act in &self.acts {
            body.push('\n');
            body.push_str(&act.name);
            body.push(' ');
            body.push_str(&act.arguments);
        }
        body.into()
    }
}

/// A token for four characters, and four for what a message takes around its text.
pub fn tokens_of(text: &str) -> u32 {
    u32::try_from(text.chars().count() / 4 + 4).unwrap_or(u32::MAX)
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Session {
    pub id: String,
    /// The program that was recorded.
    pub source: String,
    /// Tokens of what stood before the first message in every call: instructions, tools.
    pub over: u32,
    pub messages: Vec<Message>,
}

impl Session {
    /// Answers of the model.
    pub fn calls(&self) -> usize {
        self.messages.iter().filter(|message| message.role == Role::Assistant).count()
    }

    pub fn is_compacted(&self) -> bool {
        self.messages.iter().any(|message| message.is_summary)
    }

    /// The stretches between compactions. A summary opens the next one, as a text that was given.
    pub fn segments(self) -> Vec<Session> {
        let mut segments: Vec<Session> = Vec::new();
        for mut message in self.messages {
            if message.is_summary || segments.is_empty() {
                let (id, source) = (self.id.clone(), self.source.clone());
                segments.push(Session { id, source, over: self.over, messages: Vec::new() });
            }
            message.is_summary = false;
            if let Some(last) = segments.last_mut() {
                last.messages.push(message);
            }
        }
        segments
    }
}
