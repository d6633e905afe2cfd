//! Anthropic Messages: <https://platform.claude.com/docs/en/api/messages>, streaming
//! <https://platform.claude.com/docs/en/build-with-claude/streaming>.

use baton_core::id::Tokens;
use baton_core::message::{
    Answer, Message, Part, Request, Role, Stop, Thinking, Usage, Wire, tool_call,
};
use serde_json::{Map, Value, json};

use super::schema::Fitted;
use super::{Delta, Failed, cut_off, field, sendable, text_of};

pub(super) fn encode(request: &Request, schema: Option<&Fitted>, stream: bool) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    body.insert("max_tokens".into(), json!(request.max_output));
    if let Some(temperature) = request.temperature {
        body.insert("temperature".into(), json!(temperature));
    }
    body.insert("stream".into(), json!(stream));
    if let Some(Fitted { schema, .. }) = schema {
        body.insert(
            "output_config".into(),
            json!({ "format": { "type": "json_schema", "schema": schema } }),
        );
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter();
        let tools = tools.map(|tool| json!({ "name": tool.name, "description": tool.description, "input_schema": tool.schema }));
        body.insert("tools".into(), tools.collect());
        if request.no_calls {
            body.insert("tool_choice".into(), json!({ "type": "none" }));
        }
    }
    let system = request.system.iter().filter(|text| !text.is_empty());
    let system: Vec<Value> =
        system.map(|text| marked(json!({ "type": "text", "text": text }))).collect();
    // Four breakpoints are all there are: two for the layers, two for the history.
    let (layers, plain) = system.split_at(system.len().min(2));
    let mut blocks = layers.to_vec();
    blocks.extend(plain.iter().cloned().map(unmarked));
    if !blocks.is_empty() {
        body.insert("system".into(), blocks.into());
    }
    let last = request.messages.len();
    let messages = request.messages.iter().enumerate().map(|(index, message)| {
        let is_end = index + 1 == last
            || (index + 1 == request.cached_messages && request.cached_messages < last);
        encode_message(message, is_end)
    });
    let mut messages: Vec<Value> = messages.collect();
    // Behind the last breakpoint: it may change without costing what is kept before it.
    if let (Some(tail), Some(blocks)) =
        (&request.tail, messages.last_mut().and_then(|last| last["content"].as_array_mut()))
    {
        blocks.push(json!({ "type": "text", "text": tail }));
    }
    body.insert("messages".into(), messages.into());
    Value::Object(body)
}

/// A breakpoint: the provider keeps what stands up to here.
fn marked(mut block: Value) -> Value {
    block["cache_control"] = json!({ "type": "ephemeral" });
    block
}

fn unmarked(mut block: Value) -> Value {
    if let Some(block) = block.as_object_mut() {
        block.remove("cache_control");
    }
    block
}

fn encode_message(message: &Message, is_end: bool) -> Value {
    let mut blocks: Vec<Value> = sendable(&message.parts).iter().filter_map(encode_part).collect();
    // Thinking cannot carry a breakpoint.
    if is_end
        && let Some(last) =
            blocks.iter_mut().rev().find(|block| !text_of(&block["type"]).ends_with("thinking"))
    {
        *last = marked(last.take());
    }
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    json!({ "role": role, "content": blocks })
}

fn encode_part(part: &Part) -> Option<Value> {
    Some(match part {
        Part::Text { text } if text.trim().is_empty() => return None,
        Part::Text { text } => json!({ "type": "text", "text": text }),
        Part::ToolCall(call) => {
            json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments })
        }
        Part::ToolResult(result) => json!({
            "type": "tool_result",
            "tool_use_id": result.call_id,
            "content": result.content,
            "is_error": result.is_error,
        }),
        // Another provider's thoughts mean nothing here.
        Part::Thinking(thinking) if thinking.wire == Wire::Anthropic => thinking.opaque.clone(),
        Part::Thinking(_) | Part::Image { .. } => return None,
    })
}

/// A whole answer that was not streamed.
pub(super) fn decode(body: &Value) -> Result<Answer, Failed> {
    let mut parts = Vec::new();
    let mut broken_calls = Vec::new();
    let blocks = body["content"].as_array().ok_or(Failed::new("the answer has no content"))?;
    // Stopped for another reason than the end of its turn, the last call may be half of itself.
    let is_cut = !matches!(
        text_of(&body["stop_reason"]),
        "tool_use" | "end_turn" | "stop_sequence" | "pause_turn"
    );
    let last = blocks.len().saturating_sub(1);
    for (index, block) in blocks.iter().enumerate() {
        match text_of(&block["type"]) {
            "text" => parts.push(Part::Text { text: field(block, "text")? }),
            "tool_use" => {
                let arguments = block.get("input").map(Value::to_string).unwrap_or_default();
                match tool_call(field(block, "id")?, field(block, "name")?, &arguments) {
                    Ok(call) if is_cut && index == last => broken_calls.push(cut_off(call)),
                    Ok(call) => parts.push(Part::ToolCall(call)),
                    Err(broken) => broken_calls.push(broken),
                }
            }
            "thinking" | "redacted_thinking" => parts.push(thinking(block.clone())),
            other => {
                return Err(Failed::new(format!("a content block of the unknown type `{other}`")));
            }
        }
    }
    let stop = stop(text_of(&body["stop_reason"]), body);
    let usage = usage(&body["usage"]);
    Ok(Answer {
        id: field(body, "id")?,
        model: field(body, "model")?,
        parts,
        broken_calls,
        stop,
        usage,
    })
}

fn thinking(block: Value) -> Part {
    let text = text_of(&block["thinking"]).to_owned();
    Part::Thinking(Thinking { wire: Wire::Anthropic, text, opaque: block })
}

fn stop(word: &str, body: &Value) -> Stop {
    match word {
        "end_turn" | "stop_sequence" => Stop::End,
        "tool_use" => Stop::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => Stop::MaxTokens,
        "refusal" => Stop::Refusal(text_of(&body["stop_details"]["explanation"]).to_owned()),
        other => Stop::Other(other.to_owned()),
    }
}

fn usage(usage: &Value) -> Usage {
    let tokens = |name: &str| usage[name].as_u64().map(Tokens);
    Usage {
        input: tokens("input_tokens"),
        output: tokens("output_tokens"),
        cache_read: tokens("cache_read_input_tokens"),
        cache_write: tokens("cache_creation_input_tokens"),
        reasoning: None,
    }
}

/// An answer that is still coming.
#[derive(Debug, Default)]
pub(super) struct Stream {
    message: Map<String, Value>,
    blocks: Vec<Block>,
    is_whole: bool,
}

/// A content block: what it began as, what was added, whether its end was seen.
#[derive(Debug)]
struct Block {
    start: Value,
    text: String,
    signature: String,
    is_closed: bool,
}

impl Stream {
    pub(super) fn take(&mut self, data: &str) -> Result<Vec<Delta>, Failed> {
        let mut event: Value = serde_json::from_str(data)
            .map_err(|error| Failed::new(format!("an event is not JSON: {error}")))?;
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => match event["message"].take() {
                Value::Object(message) => self.message = message,
                _ => return Err(Failed::new("`message_start` without a message")),
            },
            "content_block_start" => {
                let index = event["index"].as_u64().unwrap_or(u64::MAX);
                if index != self.blocks.len() as u64 {
                    return Err(Failed::new("a content block begins out of order"));
                }
                let start = event["content_block"].take();
                self.blocks.push(Block {
                    start,
                    text: String::new(),
                    signature: String::new(),
                    is_closed: false,
                });
            }
            "content_block_delta" => return self.delta(&event).map(Vec::from_iter),
            "content_block_stop" => self.block(&event)?.is_closed = true,
            "message_delta" => {
                if let Value::Object(delta) = event["delta"].take() {
                    self.message.extend(delta);
                }
                // Counts here replace those of the start, which knew only the input.
                if let (Some(Value::Object(usage)), Value::Object(new)) =
                    (self.message.get_mut("usage"), event["usage"].take())
                {
                    usage.extend(new.into_iter().filter(|(_, count)| !count.is_null()));
                }
            }
            "message_stop" => self.is_whole = true,
            "error" => return Err(Failed::of_provider(&event["error"])),
            // `ping`, and what may be invented later.
            _ => {}
        }
        Ok(Vec::new())
    }

    fn block(&mut self, event: &Value) -> Result<&mut Block, Failed> {
        let index = event["index"].as_u64().and_then(|index| usize::try_from(index).ok());
        let block = index.and_then(|index| self.blocks.get_mut(index));
        match block {
            Some(block) if !block.is_closed => Ok(block),
            _ => Err(Failed::new("an event for a content block that is not open")),
        }
    }

    fn delta(&mut self, event: &Value) -> Result<Option<Delta>, Failed> {
        let delta = &event["delta"];
        let block = self.block(event)?;
        Ok(match text_of(&delta["type"]) {
            "text_delta" => {
                let text: String = field(delta, "text")?;
                block.text.push_str(&text);
                Some(Delta::Text(text))
            }
            "input_json_delta" => {
                block.text.push_str(text_of(&delta["partial_json"]));
                None
            }
            "thinking_delta" => {
                let text: String = field(delta, "thinking")?;
                block.text.push_str(&text);
                Some(Delta::Thinking(text))
            }
            "signature_delta" => {
                block.signature.push_str(text_of(&delta["signature"]));
                None
            }
            _ => None,
        })
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_whole
    }

    /// The answer, if the stream came to its end.
    pub(super) fn finish(mut self) -> Result<Answer, Failed> {
        if !self.is_whole {
            return Err(Failed::cut());
        }
        let mut content = Vec::new();
        let mut broken_calls = Vec::new();
        for block in std::mem::take(&mut self.blocks) {
            let mut whole = block.start;
            match text_of(&whole["type"]) {
                "text" => {
                    whole["text"] = json!(format!("{}{}", text_of(&whole["text"]), block.text));
                }
                "thinking" => {
                    whole["thinking"] =
                        json!(format!("{}{}", text_of(&whole["thinking"]), block.text));
                    whole["signature"] =
                        json!(format!("{}{}", text_of(&whole["signature"]), block.signature));
                }
                "tool_use" => {
                    let (id, name) = (field(&whole, "id")?, field(&whole, "name")?);
                    // A block may begin with all it has.
                    let begun = whole["input"].to_string();
                    let arguments = if block.text.trim().is_empty() { &begun } else { &block.text };
                    match tool_call(id, name, arguments) {
                        // Cut by the limit of tokens: its arguments may parse by accident.
                        Ok(call) if !block.is_closed => {
                            broken_calls.push(cut_off(call));
                            continue;
                        }
                        Ok(call) => whole["input"] = Value::Object(call.arguments),
                        Err(broken) => {
                            broken_calls.push(broken);
                            continue;
                        }
                    }
                }
                _ => {}
            }
            content.push(whole);
        }
        self.message.insert("content".into(), content.into());
        let mut answer = decode(&Value::Object(self.message))?;
        answer.broken_calls.extend(broken_calls);
        Ok(answer)
    }
}
