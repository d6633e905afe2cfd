//! OpenAI Chat Completions: <https://platform.openai.com/docs/api-reference/chat>, streaming
//! <https://platform.openai.com/docs/api-reference/chat-streaming>; also llama.cpp, Ollama, vLLM,
//! LM Studio and gateways.

use baton_core::id::Tokens;
use baton_core::message::{
    Answer, Message, Part, Request, Role, Stop, Thinking, Usage, Wire, tool_call,
};
use serde_json::{Map, Value, json};

use super::schema::Fitted;
use super::{Delta, Failed, arguments_of, cache_key, cut_off, field, text_of};

/// `is_openai`: the provider itself, whose newer models want another name for the limit.
pub(super) fn encode(
    request: &Request,
    schema: Option<&Fitted>,
    stream: bool,
    is_openai: bool,
) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    let limit = if is_openai { "max_completion_tokens" } else { "max_tokens" };
    body.insert(limit.into(), json!(request.max_output));
    if let Some(temperature) = request.temperature {
        body.insert("temperature".into(), json!(temperature));
    }
    body.insert("stream".into(), json!(stream));
    if stream {
        body.insert("stream_options".into(), json!({ "include_usage": true }));
    }
    if is_openai {
        body.insert("prompt_cache_key".into(), json!(cache_key(request)));
    }
    if let (Some(format), Some(Fitted { schema, strict, .. })) = (&request.format, schema) {
        let schema = json!({ "name": format.name, "schema": schema, "strict": strict });
        body.insert(
            "response_format".into(),
            json!({ "type": "json_schema", "json_schema": schema }),
        );
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let function = json!({ "name": tool.name, "description": tool.description, "parameters": tool.schema });
            json!({ "type": "function", "function": function })
        });
        body.insert("tools".into(), tools.collect());
        if request.no_calls {
            body.insert("tool_choice".into(), "none".into());
        }
    }
    // One message: the templates of some models allow no second.
    let system: Vec<&str> =
        request.system.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    let system =
        (!system.is_empty()).then(|| json!({ "role": "system", "content": system.join("\n\n") }));
    body.insert(
        "messages".into(),
        system
            .into_iter()
            .chain(request.messages.iter().flat_map(encode_message))
            .chain(request.tail.iter().map(|tail| json!({ "role": "user", "content": tail })))
            .collect(),
    );
    Value::Object(body)
}

fn encode_message(message: &Message) -> Vec<Value> {
    let text = |parts: &[Part]| -> String {
        let texts = parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            Part::ToolCall(_) | Part::ToolResult(_) | Part::Thinking(_) | Part::Image { .. } => {
                None
            }
        });
        texts.collect::<Vec<_>>().join("\n\n")
    };
    let words = text(&message.parts);
    match message.role {
        Role::User => {
            let results = message.parts.iter().filter_map(|part| match part {
                Part::ToolResult(result) => {
                    Some(json!({ "role": "tool", "tool_call_id": result.call_id, "content": result.content }))
                }
                Part::Text { .. }
                | Part::ToolCall(_)
                | Part::Thinking(_)
                | Part::Image { .. } => None,
            });
            let mut items: Vec<Value> = results.collect();
            if !words.is_empty() {
                items.push(json!({ "role": "user", "content": words }));
            }
            items
        }
        Role::Assistant => {
            let mut item = json!({ "role": "assistant", "content": words });
            let calls = message.parts.iter().filter_map(|part| match part {
                Part::ToolCall(call) => {
                    let arguments = Value::Object(call.arguments.clone()).to_string();
                    let function = json!({ "name": call.name, "arguments": arguments });
                    Some(json!({ "id": call.id, "type": "function", "function": function }))
                }
                Part::Text { .. }
                | Part::ToolResult(_)
                | Part::Thinking(_)
                | Part::Image { .. } => None,
            });
            let calls: Vec<Value> = calls.collect();
            if !calls.is_empty() {
                give_back(&message.parts, &mut item);
                item["tool_calls"] = calls.into();
            }
            vec![item]
        }
    }
}

/// What the model thought before its calls, in the fields it came in. Servers that have such fields
/// want them again between a call and its result; behind a finished answer some refuse them.
fn give_back(parts: &[Part], item: &mut Value) {
    for part in parts {
        if let Part::Thinking(Thinking {
            wire: Wire::Chat, opaque: Value::Object(fields), ..
        }) = part
        {
            for (name, value) in fields.iter().filter(|(name, _)| is_thought(name)) {
                item[name.as_str()] = value.clone();
            }
        }
    }
}

/// DeepSeek, vLLM, llama.cpp and OpenRouter have each their own name for it.
const THOUGHTS: [&str; 2] = ["reasoning_content", "reasoning"];
/// Sealed pieces, a list.
const DETAILS: &str = "reasoning_details";

fn is_thought(name: &str) -> bool {
    name == DETAILS || THOUGHTS.contains(&name)
}

pub(super) fn decode(body: &Value) -> Result<Answer, Failed> {
    if body["error"].is_object() {
        return Err(Failed::of_provider(&body["error"]));
    }
    let choice = body["choices"].get(0).ok_or(Failed::new("the answer has no choice"))?;
    let message = &choice["message"];
    let mut gathered = Gathered {
        id: text_of(&body["id"]).to_owned(),
        model: field(body, "model")?,
        text: text_of(&message["content"]).to_owned(),
        refusal: text_of(&message["refusal"]).to_owned(),
        finish: choice["finish_reason"].as_str().filter(|word| !word.is_empty()).map(str::to_owned),
        usage: usage(&body["usage"]),
        calls: message["tool_calls"].as_array().into_iter().flatten().map(Call::of).collect(),
        thoughts: Map::new(),
    };
    gathered.think(message);
    gathered.answer()
}

fn usage(usage: &Value) -> Usage {
    let tokens = |value: &Value| value.as_u64().map(Tokens);
    let cached = tokens(&usage["prompt_tokens_details"]["cached_tokens"]);
    // The provider counts what it read from the cache as input; we do not.
    let input = tokens(&usage["prompt_tokens"])
        .map(|Tokens(all)| Tokens(all.saturating_sub(cached.map_or(0, |cached| cached.0))));
    Usage {
        input,
        output: tokens(&usage["completion_tokens"]),
        cache_read: cached,
        cache_write: None,
        reasoning: tokens(&usage["completion_tokens_details"]["reasoning_tokens"]),
    }
}

#[derive(Debug, Default)]
struct Call {
    /// The place that the server gave it; some give all of them the same.
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl Call {
    fn of(value: &Value) -> Call {
        Call {
            index: value["index"].as_u64(),
            id: text_of(&value["id"]).to_owned(),
            name: text_of(&value["function"]["name"]).to_owned(),
            arguments: arguments_of(&value["function"]["arguments"]),
        }
    }
}

#[derive(Debug, Default)]
struct Gathered {
    id: String,
    model: String,
    text: String,
    refusal: String,
    finish: Option<String>,
    usage: Usage,
    calls: Vec<Call>,
    /// The fields in which the model's thoughts came.
    thoughts: Map<String, Value>,
}

impl Gathered {
    /// Takes the thoughts of a message or of a piece of one; what is new of them, for people.
    fn think(&mut self, message: &Value) -> Option<String> {
        let mut heard = None;
        for name in THOUGHTS {
            let text = text_of(&message[name]);
            if !text.is_empty() {
                if let Value::String(so_far) =
                    self.thoughts.entry(name).or_insert_with(|| json!(""))
                {
                    so_far.push_str(text);
                }
                heard.get_or_insert_with(|| text.to_owned());
            }
        }
        if let Some(pieces) = message[DETAILS].as_array() {
            let so_far = self.thoughts.entry(DETAILS).or_insert_with(|| json!([]));
            if let Value::Array(so_far) = so_far {
                so_far.extend(pieces.iter().cloned());
            }
        }
        heard
    }

    /// A piece of a call: of the one at its place, or a new one where the id is another.
    fn call(&mut self, piece: Call) {
        let own = self.calls.iter_mut().rev().find(|call| match piece.index {
            Some(_) => call.index == piece.index,
            None => piece.id.is_empty() || call.id == piece.id,
        });
        match own {
            Some(call) if piece.id.is_empty() || call.id.is_empty() || call.id == piece.id => {
                if call.id.is_empty() {
                    call.id = piece.id;
                }
                if call.name.is_empty() {
                    call.name = piece.name;
                }
                call.arguments.push_str(&piece.arguments);
            }
            _ => self.calls.push(piece),
        }
    }

    fn answer(self) -> Result<Answer, Failed> {
        let Some(finish) = self.finish else { return Err(Failed::cut()) };
        let is_cut = !matches!(finish.as_str(), "stop" | "tool_calls" | "function_call");
        let mut parts = Vec::new();
        let mut broken_calls = Vec::new();
        if !self.thoughts.is_empty() {
            let text = THOUGHTS.iter().map(|name| self.thoughts.get(*name).map_or("", text_of));
            let text = text.max_by_key(|text| text.len()).unwrap_or_default().to_owned();
            let opaque = Value::Object(self.thoughts);
            parts.push(Part::Thinking(Thinking { wire: Wire::Chat, text, opaque }));
        }
        if !self.text.is_empty() {
            parts.push(Part::Text { text: self.text });
        }
        let last = self.calls.len().saturating_sub(1);
        for (index, call) in self.calls.into_iter().enumerate() {
            match tool_call(call.id, call.name, &call.arguments) {
                // At the limit of tokens the last call may be half of itself and still parse.
                Ok(call) if is_cut && index == last => broken_calls.push(cut_off(call)),
                Ok(call) => parts.push(Part::ToolCall(call)),
                Err(broken) => broken_calls.push(broken),
            }
        }
        let calls = parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
        let stop = match finish.as_str() {
            _ if !self.refusal.is_empty() => Stop::Refusal(self.refusal),
            "content_filter" => Stop::Refusal("content_filter".to_owned()),
            "length" => Stop::MaxTokens,
            // Servers differ in the word; the calls themselves tell.
            "stop" | "tool_calls" | "function_call" | "" => {
                if calls {
                    Stop::ToolCalls
                } else {
                    Stop::End
                }
            }
            other => Stop::Other(other.to_owned()),
        };
        Ok(Answer { id: self.id, model: self.model, parts, broken_calls, stop, usage: self.usage })
    }
}

/// An answer that is still coming.
#[derive(Debug, Default)]
pub(super) struct Stream {
    gathered: Gathered,
    is_done: bool,
}

impl Stream {
    pub(super) fn take(&mut self, data: &str) -> Result<Vec<Delta>, Failed> {
        if data.trim() == "[DONE]" {
            self.is_done = true;
            return Ok(Vec::new());
        }
        let chunk: Value = serde_json::from_str(data)
            .map_err(|error| Failed::new(format!("an event is not JSON: {error}")))?;
        if chunk["error"].is_object() {
            return Err(Failed::of_provider(&chunk["error"]));
        }
        let all = &mut self.gathered;
        for (slot, name) in [(&mut all.id, "id"), (&mut all.model, "model")] {
            if slot.is_empty() {
                text_of(&chunk[name]).clone_into(slot);
            }
        }
        if chunk["usage"].is_object() {
            all.usage = usage(&chunk["usage"]);
        }
        let mut deltas = Vec::new();
        let Some(choice) = chunk["choices"].get(0) else { return Ok(deltas) };
        let delta = &choice["delta"];
        let text = text_of(&delta["content"]);
        if !text.is_empty() {
            all.text.push_str(text);
            deltas.push(Delta::Text(text.to_owned()));
        }
        deltas.extend(all.think(delta).map(Delta::Thinking));
        all.refusal.push_str(text_of(&delta["refusal"]));
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            all.call(Call::of(piece));
        }
        // Some gateways send an empty one in every chunk.
        if let Some(reason) = choice["finish_reason"].as_str().filter(|word| !word.is_empty()) {
            all.finish = Some(reason.to_owned());
        }
        Ok(deltas)
    }

    /// Nothing more will come.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// The answer is whole, whatever may still be counted.
    pub(super) fn has_end(&self) -> bool {
        self.gathered.finish.is_some()
    }

    pub(super) fn finish(self) -> Result<Answer, Failed> {
        self.gathered.answer()
    }
}
