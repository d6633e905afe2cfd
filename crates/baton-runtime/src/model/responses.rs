//! OpenAI Responses: <https://platform.openai.com/docs/api-reference/responses>, streaming
//! <https://platform.openai.com/docs/api-reference/responses-streaming>.

use baton_core::id::Tokens;
use baton_core::message::{
    Answer, Message, Part, Request, Role, Stop, Thinking, Usage, Wire, tool_call,
};
use serde_json::{Map, Value, json};

use super::schema::Fitted;
use super::{Delta, Failed, arguments_of, cache_key, cut_off, field, sendable, text_of};

pub(super) fn encode(request: &Request, schema: Option<&Fitted>, stream: bool) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    body.insert("max_output_tokens".into(), json!(request.max_output));
    if let Some(temperature) = request.temperature {
        body.insert("temperature".into(), json!(temperature));
    }
    body.insert("stream".into(), json!(stream));
    // Nothing is kept by the provider; its reasoning comes back to us sealed.
    body.insert("store".into(), json!(false));
    if thinks(&request.model) {
        body.insert("include".into(), json!(["reasoning.encrypted_content"]));
    }
    body.insert("prompt_cache_key".into(), json!(cache_key(request)));
    if let (Some(format), Some(Fitted { schema, strict, .. })) = (&request.format, schema) {
        let format = json!({ "type": "json_schema", "name": format.name, "schema": schema, "strict": strict });
        body.insert("text".into(), json!({ "format": format }));
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({ "type": "function", "name": tool.name, "description": tool.description, "parameters": tool.schema, "strict": false })
        });
        body.insert("tools".into(), tools.collect());
        if request.no_calls {
            body.insert("tool_choice".into(), "none".into());
        }
    }
    let system: Vec<&str> =
        request.system.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    if !system.is_empty() {
        body.insert("instructions".into(), json!(system.join("\n\n")));
    }
    let tail = request.tail.iter().flat_map(|tail| encode_message(&Message::user(tail.as_str())));
    let input = request.messages.iter().flat_map(encode_message).chain(tail);
    body.insert("input".into(), input.collect());
    Value::Object(body)
}

/// Other models refuse to be asked for sealed reasoning.
fn thinks(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let numbered =
        name.strip_prefix('o').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let version = name.strip_prefix("gpt-").and_then(|rest| rest.chars().next()?.to_digit(10));
    numbered || (version.is_some_and(|version| version >= 5) && !name.contains("chat"))
}

fn encode_message(message: &Message) -> Vec<Value> {
    let mut items = Vec::new();
    for part in sendable(&message.parts) {
        items.push(match part {
            Part::Text { text } if text.trim().is_empty() => continue,
            Part::Text { text } => {
                let (role, kind) = match message.role {
                    Role::User => ("user", "input_text"),
                    Role::Assistant => ("assistant", "output_text"),
                };
                json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": text }] })
            }
            Part::ToolCall(call) => json!({
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": Value::Object(call.arguments.clone()).to_string(),
            }),
            Part::ToolResult(result) => json!({ "type": "function_call_output", "call_id": result.call_id, "output": result.content }),
            // Nothing is kept at the provider: what is not sealed in it cannot go back.
            Part::Thinking(thinking)
                if thinking.wire == Wire::Responses
                    && thinking.opaque["encrypted_content"].is_string() =>
            {
                thinking.opaque.clone()
            }
            Part::Thinking(_) | Part::Image { .. } => continue,
        });
    }
    items
}

pub(super) fn decode(body: &Value) -> Result<Answer, Failed> {
    if body["error"].is_object() {
        return Err(Failed::of_provider(&body["error"]));
    }
    let mut parts = Vec::new();
    let mut broken_calls = Vec::new();
    let mut refusal = None;
    let is_whole = body["status"] == "completed";
    for item in body["output"].as_array().ok_or(Failed::new("the answer has no output"))? {
        match text_of(&item["type"]) {
            "message" => {
                for content in item["content"].as_array().into_iter().flatten() {
                    match text_of(&content["type"]) {
                        "output_text" => parts.push(Part::Text { text: field(content, "text")? }),
                        "refusal" => refusal = Some(field(content, "refusal")?),
                        _ => {}
                    }
                }
            }
            "function_call" => {
                let call = tool_call(
                    field(item, "call_id")?,
                    field(item, "name")?,
                    &arguments_of(&item["arguments"]),
                );
                match call {
                    Ok(call) if is_whole || item["status"] == "completed" => {
                        parts.push(Part::ToolCall(call));
                    }
                    Ok(call) => broken_calls.push(cut_off(call)),
                    Err(broken) => broken_calls.push(broken),
                }
            }
            "reasoning" => {
                let summaries = item["summary"].as_array().into_iter().flatten();
                let text: Vec<&str> = summaries.map(|summary| text_of(&summary["text"])).collect();
                parts.push(Part::Thinking(Thinking {
                    wire: Wire::Responses,
                    text: text.join("\n"),
                    opaque: item.clone(),
                }));
            }
            // Tools that run at the provider are never asked for.
            _ => {}
        }
    }
    let calls = parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
    let stop = match (refusal, text_of(&body["incomplete_details"]["reason"])) {
        (Some(words), _) => Stop::Refusal(words),
        (None, "max_output_tokens") => Stop::MaxTokens,
        (None, "content_filter") => Stop::Refusal("content_filter".to_owned()),
        (None, "") if is_whole => {
            if calls {
                Stop::ToolCalls
            } else {
                Stop::End
            }
        }
        (None, "") => Stop::Other(text_of(&body["status"]).to_owned()),
        (None, other) => Stop::Other(other.to_owned()),
    };
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

fn usage(usage: &Value) -> Usage {
    let tokens = |value: &Value| value.as_u64().map(Tokens);
    let cached = tokens(&usage["input_tokens_details"]["cached_tokens"]);
    // The provider counts what it read from the cache as input; we do not.
    let input = tokens(&usage["input_tokens"])
        .map(|Tokens(all)| Tokens(all.saturating_sub(cached.map_or(0, |cached| cached.0))));
    Usage {
        input,
        output: tokens(&usage["output_tokens"]),
        cache_read: cached,
        cache_write: None,
        reasoning: tokens(&usage["output_tokens_details"]["reasoning_tokens"]),
    }
}

/// An answer that is still coming. The last event holds the whole of it; the others are progress.
#[derive(Debug, Default)]
pub(super) struct Stream {
    whole: Option<Value>,
}

impl Stream {
    pub(super) fn take(&mut self, data: &str) -> Result<Vec<Delta>, Failed> {
        let mut event: Value = serde_json::from_str(data)
            .map_err(|error| Failed::new(format!("an event is not JSON: {error}")))?;
        let delta = |event: &Value| text_of(&event["delta"]).to_owned();
        Ok(match event["type"].as_str().unwrap_or_default() {
            "response.output_text.delta" => vec![Delta::Text(delta(&event))],
            "response.reasoning_summary_text.delta" => vec![Delta::Thinking(delta(&event))],
            "response.completed" | "response.incomplete" => {
                self.whole = Some(event["response"].take());
                Vec::new()
            }
            "response.failed" => return Err(Failed::of_provider(&event["response"]["error"])),
            "error" => {
                let error = if event["error"].is_object() { &event["error"] } else { &event };
                return Err(Failed::of_provider(error));
            }
            _ => Vec::new(),
        })
    }

    pub(super) fn is_done(&self) -> bool {
        self.whole.is_some()
    }

    pub(super) fn finish(self) -> Result<Answer, Failed> {
        decode(&self.whole.ok_or_else(Failed::cut)?)
    }
}
