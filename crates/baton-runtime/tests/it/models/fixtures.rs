//! One answer on three wires, streamed and whole. The shapes follow the providers' references:
//! Anthropic <https://platform.claude.com/docs/en/build-with-claude/streaming> (tool use, extended
//! thinking, refusal), OpenAI Responses <https://platform.openai.com/docs/api-reference/responses-streaming>,
//! OpenAI Chat Completions <https://platform.openai.com/docs/api-reference/chat-streaming>.

use baton_core::message::Wire;
use serde_json::{Value, json};

/// What an answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    Text,
    ToolCall,
    ParallelCalls,
    Structured,
    Thinking,
    Refusal,
    CutCall,
}

pub(crate) const CASES: [Case; 7] = [
    Case::Text,
    Case::ToolCall,
    Case::ParallelCalls,
    Case::Structured,
    Case::Thinking,
    Case::Refusal,
    Case::CutCall,
];

/// The words of a case.
fn words(case: Case) -> &'static str {
    match case {
        Case::Text | Case::Thinking => "Hello, 世界!",
        Case::Structured => "{\"next_agent\":\"TEST\"}",
        Case::ToolCall | Case::ParallelCalls | Case::CutCall => "Let me look.",
        Case::Refusal => "",
    }
}

/// The calls of a case: id, name, arguments as text.
fn calls(case: Case) -> Vec<(&'static str, &'static str, &'static str)> {
    match case {
        Case::ToolCall => vec![("call_1", "Read", "{\"path\":\"src/lib.rs\"}")],
        Case::ParallelCalls => {
            vec![
                ("call_1", "Read", "{\"path\":\"a b.rs\"}"),
                ("call_2", "Grep", "{\"pattern\":\"世\\\"\",\"max\":5}"),
            ]
        }
        // Parses, and is not whole all the same: the limit of tokens cut it.
        Case::CutCall => vec![("call_1", "Write", "{}")],
        Case::Text | Case::Structured | Case::Thinking | Case::Refusal => Vec::new(),
    }
}

pub(crate) fn whole(wire: Wire, case: Case) -> String {
    match wire {
        Wire::Anthropic => anthropic(case),
        Wire::Responses => responses(case),
        Wire::Chat => chat(case),
    }
    .to_string()
}

pub(crate) fn stream(wire: Wire, case: Case) -> String {
    match wire {
        Wire::Anthropic => anthropic_stream(case),
        Wire::Responses => responses_stream(case),
        Wire::Chat => chat_stream(case),
    }
}

fn anthropic(case: Case) -> Value {
    let mut content = Vec::new();
    if case == Case::Thinking {
        content
            .push(json!({ "type": "thinking", "thinking": "Greet them.", "signature": "sig+/==" }));
        content.push(json!({ "type": "redacted_thinking", "data": "sealed" }));
    }
    if !words(case).is_empty() {
        content.push(json!({ "type": "text", "text": words(case) }));
    }
    for (id, name, arguments) in calls(case).into_iter().filter(|_| case != Case::CutCall) {
        let input: Value = serde_json::from_str(arguments).unwrap();
        content.push(json!({ "type": "tool_use", "id": id, "name": name, "input": input }));
    }
    let stop = match case {
        Case::ToolCall | Case::ParallelCalls => "tool_use",
        Case::Refusal => "refusal",
        Case::CutCall => "max_tokens",
        Case::Text | Case::Structured | Case::Thinking => "end_turn",
    };
    json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": content,
        "stop_reason": stop, "stop_sequence": null,
        "usage": { "input_tokens": 12, "cache_creation_input_tokens": 300, "cache_read_input_tokens": 4000, "output_tokens": 25 } })
}

fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn anthropic_stream(case: Case) -> String {
    let message = anthropic(case);
    let mut start = message.clone();
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    start["usage"]["output_tokens"] = json!(1);
    let mut out = event("message_start", &json!({ "type": "message_start", "message": start }));
    out += "event: ping\ndata: {\"type\": \"ping\"}\n\n";
    let mut index = 0;
    for block in message["content"].as_array().unwrap() {
        out += &anthropic_block(index, block, true);
        index += 1;
    }
    if case == Case::CutCall {
        let (id, name, arguments) = calls(case)[0];
        let block = json!({ "type": "tool_use", "id": id, "name": name, "input": serde_json::from_str::<Value>(arguments).unwrap() });
        out += &anthropic_block(index, &block, false);
    }
    let delta = json!({ "type": "message_delta", "delta": { "stop_reason": message["stop_reason"], "stop_sequence": null },
        "usage": { "output_tokens": 25 } });
    out + &event("message_delta", &delta)
        + &event("message_stop", &json!({ "type": "message_stop" }))
}

fn anthropic_block(index: usize, block: &Value, is_closed: bool) -> String {
    let kind = block["type"].as_str().unwrap();
    let (start, deltas) = match kind {
        "text" => {
            let text = block["text"].as_str().unwrap();
            let half = text.floor_char_boundary(text.len() / 2);
            let delta = |text: &str| json!({ "type": "text_delta", "text": text });
            (
                json!({ "type": "text", "text": "" }),
                vec![delta(&text[..half]), delta(&text[half..])],
            )
        }
        "tool_use" => {
            let input = block["input"].to_string();
            let half = input.floor_char_boundary(input.len() / 2);
            let delta = |text: &str| json!({ "type": "input_json_delta", "partial_json": text });
            let start = json!({ "type": "tool_use", "id": block["id"], "name": block["name"], "input": {} });
            (start, vec![delta(""), delta(&input[..half]), delta(&input[half..])])
        }
        "thinking" => (
            json!({ "type": "thinking", "thinking": "", "signature": "" }),
            vec![
                json!({ "type": "thinking_delta", "thinking": block["thinking"] }),
                json!({ "type": "signature_delta", "signature": block["signature"] }),
            ],
        ),
        _ => (block.clone(), Vec::new()),
    };
    let mut out = event(
        "content_block_start",
        &json!({ "type": "content_block_start", "index": index, "content_block": start }),
    );
    for delta in deltas {
        out += &event(
            "content_block_delta",
            &json!({ "type": "content_block_delta", "index": index, "delta": delta }),
        );
    }
    if is_closed {
        out +=
            &event("content_block_stop", &json!({ "type": "content_block_stop", "index": index }));
    }
    out
}

fn responses(case: Case) -> Value {
    let mut output = Vec::new();
    if case == Case::Thinking {
        output.push(json!({ "type": "reasoning", "id": "rs_1", "summary": [{ "type": "summary_text", "text": "Greet them." }], "encrypted_content": "sealed" }));
    }
    let content = match case {
        Case::Refusal => json!([{ "type": "refusal", "refusal": "I can't help with that." }]),
        _ => json!([{ "type": "output_text", "text": words(case), "annotations": [] }]),
    };
    output.push(json!({ "type": "message", "id": "m_1", "role": "assistant", "status": "completed", "content": content }));
    let is_cut = case == Case::CutCall;
    for (id, name, arguments) in calls(case) {
        let status = if is_cut { "incomplete" } else { "completed" };
        output.push(json!({ "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": arguments, "status": status }));
    }
    let details = if is_cut { json!({ "reason": "max_output_tokens" }) } else { Value::Null };
    json!({ "id": "resp_1", "object": "response", "model": "gpt-x", "status": if is_cut { "incomplete" } else { "completed" }, "error": null,
        "incomplete_details": details, "output": output,
        "usage": { "input_tokens": 4312, "input_tokens_details": { "cached_tokens": 4000 }, "output_tokens": 25,
            "output_tokens_details": { "reasoning_tokens": 7 }, "total_tokens": 4337 } })
}

fn responses_stream(case: Case) -> String {
    let whole = responses(case);
    let mut out = event(
        "response.created",
        &json!({ "type": "response.created", "response": { "id": "resp_1", "status": "in_progress" } }),
    );
    if !words(case).is_empty() {
        out += &event(
            "response.output_text.delta",
            &json!({ "type": "response.output_text.delta", "item_id": "m_1", "delta": words(case) }),
        );
    }
    for (id, _, arguments) in calls(case) {
        let item = format!("fc_{id}");
        out += &event(
            "response.function_call_arguments.delta",
            &json!({ "type": "response.function_call_arguments.delta", "item_id": item, "delta": arguments }),
        );
        out += &event(
            "response.function_call_arguments.done",
            &json!({ "type": "response.function_call_arguments.done", "item_id": item, "arguments": arguments }),
        );
    }
    let last = if case == Case::CutCall { "response.incomplete" } else { "response.completed" };
    out + &event(last, &json!({ "type": last, "response": whole }))
}

fn chat(case: Case) -> Value {
    let calls: Vec<Value> = calls(case)
        .into_iter()
        .map(|(id, name, arguments)| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } }))
        .collect();
    let mut message = json!({ "role": "assistant", "content": words(case), "refusal": null });
    if case == Case::Refusal {
        message =
            json!({ "role": "assistant", "content": null, "refusal": "I can't help with that." });
    }
    if case == Case::Thinking {
        message["reasoning_content"] = json!("Greet them.");
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    json!({ "id": "chatcmpl_1", "object": "chat.completion", "model": "gpt-x",
        "choices": [{ "index": 0, "message": message, "finish_reason": chat_finish(case), "logprobs": null }], "usage": chat_usage() })
}

fn chat_finish(case: Case) -> &'static str {
    match case {
        Case::ToolCall | Case::ParallelCalls => "tool_calls",
        Case::CutCall => "length",
        Case::Text | Case::Structured | Case::Thinking | Case::Refusal => "stop",
    }
}

fn chat_usage() -> Value {
    json!({ "prompt_tokens": 4312, "completion_tokens": 25, "total_tokens": 4337, "prompt_tokens_details": { "cached_tokens": 4000 },
        "completion_tokens_details": { "reasoning_tokens": 7 } })
}

fn chat_stream(case: Case) -> String {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        format!(
            "data: {}\n\n",
            json!({ "id": "chatcmpl_1", "object": "chat.completion.chunk", "model": "gpt-x", "choices": [choice] })
        )
    };
    let mut out = chunk(json!({ "role": "assistant", "content": "" }), Value::Null);
    let text = words(case);
    let half = text.floor_char_boundary(text.len() / 2);
    if case == Case::Thinking {
        out += &chunk(json!({ "reasoning_content": "Greet " }), Value::Null);
        out += &chunk(json!({ "reasoning_content": "them." }), Value::Null);
    }
    out += &chunk(json!({ "content": text[..half] }), Value::Null);
    out += &chunk(json!({ "content": text[half..] }), Value::Null);
    if case == Case::Refusal {
        out += &chunk(json!({ "refusal": "I can't help with that." }), Value::Null);
    }
    for (index, (id, name, arguments)) in calls(case).into_iter().enumerate() {
        let half = arguments.floor_char_boundary(arguments.len() / 2);
        out += &chunk(
            json!({ "tool_calls": [{ "index": index, "id": id, "type": "function", "function": { "name": name, "arguments": "" } }] }),
            Value::Null,
        );
        for part in [&arguments[..half], &arguments[half..]] {
            out += &chunk(
                json!({ "tool_calls": [{ "index": index, "function": { "arguments": part } }] }),
                Value::Null,
            );
        }
    }
    out += &chunk(json!({}), json!(chat_finish(case)));
    let usage = json!({ "id": "chatcmpl_1", "object": "chat.completion.chunk", "model": "gpt-x", "choices": [], "usage": chat_usage() });
    out + &format!("data: {usage}\n\ndata: [DONE]\n\n")
}
