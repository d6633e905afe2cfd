#!/usr/bin/env python3
"""Plays the same list of shell commands to coding agents and tells what each of them sent, how long it
took and what it weighed. Python alone, no packages.

  peers_model.py run COMMANDS WORKSPACE TWIN OUT -- AGENT   one agent over the list
  peers_model.py table NAME=OUT...                          the figures of all

Three wires are served: Anthropic Messages, OpenAI Responses, OpenAI Chat Completions; {port} in the
agent's words and variables is the server's. A request that offers a shell gets the next command, after
the last one a closing text. Before a command is given out it is run bare in TWIN, a copy of the
workspace: so what it takes by itself is known from the same moment of the same machine.
"""
import fcntl
import gzip
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SHELLS = {"Bash", "bash", "shell", "shell_command", "exec_command", "local_shell"}
# Seconds after which an agent is ended.
TOO_LONG = 1200
LAST_WORDS = "All steps are done."
# A prefix that the provider has seen is read from its cache, the rest is written to it.
CACHED, WRITTEN = 0.1, 1.25


def commands_in(path):
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file if line.strip()]


# --- what a model sees of a request ---------------------------------------------------------------


def without_marks(value):
    """Cache marks move from call to call and are no content."""
    if isinstance(value, dict):
        return {key: without_marks(own) for key, own in value.items() if key != "cache_control"}
    if isinstance(value, list):
        return [without_marks(own) for own in value]
    return value


def seen(body):
    """Tools, then the system's words, then the messages, as bytes."""
    body = without_marks(body)
    parts = [body.get("tools") or [], body.get("system") or body.get("instructions") or ""]
    messages = body.get("messages") or body.get("input") or []
    parts += messages if isinstance(messages, list) else [messages]
    texts = [part if isinstance(part, str) else json.dumps(part, ensure_ascii=False) for part in parts]
    return "\n".join(texts).encode("utf-8", "surrogatepass")


def shared(one, other):
    """How many bytes both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def shell_of(body):
    for tool in body.get("tools") or []:
        name = tool.get("name") or (tool.get("function") or {}).get("name")
        if name in SHELLS:
            return name
    return None


def arguments(tool, command):
    if tool == "shell":
        return {"command": ["bash", "-c", command]}
    if tool == "exec_command":
        # It would go on in the background otherwise.
        return {"cmd": command, "yield_time_ms": 30000}
    return {"command": command}


# --- answers, one function a wire: events of a stream, or the whole -------------------------------


def anthropic(number, body, tool, command, tokens):
    block = {"type": "text", "text": LAST_WORDS}
    empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": LAST_WORDS}
    if command is not None:
        given = arguments(tool, command)
        block = {"type": "tool_use", "id": f"toolu_{number:05}", "name": tool, "input": given}
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(given)}
    reason = "end_turn" if command is None else "tool_use"
    message = {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": body.get("model"),
        "content": [block], "stop_reason": reason, "stop_sequence": None,
        "usage": {"input_tokens": tokens, "output_tokens": 20},
    }
    if not body.get("stream"):
        return message, None
    begun = {**message, "content": [], "stop_reason": None}
    ending = {"stop_reason": reason, "stop_sequence": None}
    events = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 20}},
        {"type": "message_stop"},
    ]
    return None, [(event["type"], event) for event in events]


def responses(number, body, tool, command, tokens):
    part = {"type": "output_text", "text": LAST_WORDS, "annotations": []}
    item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [part]}
    if command is not None:
        item = {
            "type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number:05}",
            "name": tool, "arguments": json.dumps(arguments(tool, command)),
        }
    item["status"] = "completed"
    usage = {
        "input_tokens": tokens, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": tokens + 20,
    }
    whole = {
        "id": f"resp_{number}", "object": "response", "status": "completed",
        "model": body.get("model"), "output": [item], "usage": usage,
    }
    if not body.get("stream"):
        return whole, None
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return None, [(event["type"], event) for event in events]


def chat(number, body, tool, command, tokens):
    message, reason = {"role": "assistant", "content": LAST_WORDS}, "stop"
    if command is not None:
        function = {"name": tool, "arguments": json.dumps(arguments(tool, command))}
        call = {"index": 0, "id": f"call_{number:05}", "type": "function", "function": function}
        message, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    usage = {"prompt_tokens": tokens, "completion_tokens": 20, "total_tokens": tokens + 20}
    head = {"id": f"chat_{number}", "created": 0, "model": body.get("model")}
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return {**head, "object": "chat.completion", "choices": [choice], "usage": usage}, None
    head["object"] = "chat.completion.chunk"
    said = {"index": 0, "delta": message, "finish_reason": None}
    ended = {"index": 0, "delta": {}, "finish_reason": reason}
    events = [{**head, "choices": [said]}, {**head, "choices": [ended], "usage": usage}, "[DONE]"]
    return None, [(None, event) for event in events]


WIRES = {"/messages": anthropic, "/responses": responses, "/chat/completions": chat}


# --- the server ------------------------------------------------------------------------------------


class Play:
    """One agent's way through the list."""

    def __init__(self, commands, twin):
        self.commands, self.twin, self.rows = commands, twin, []
        self.lock, self.next, self.before = threading.Lock(), 0, b""
        self.agent = None

    def step(self, body, wire, at):
        """What is answered to a request, written down with what it was."""
        text, tool = seen(body), shell_of(body)
        memory = own_memory(self.agent) if self.agent else 0
        with self.lock:
            command, row = None, {"wire": wire, "at": at, "bytes": len(text), "main": bool(tool)}
            if tool:
                row["shared"], self.before = shared(self.before, text), text
                row["memory"] = memory
                if self.next < len(self.commands):
                    command = self.commands[self.next]
                    self.next += 1
                    row["alone"], row["alone_cpu"] = alone(command, self.twin)
            self.rows.append(row)
            return len(self.rows), tool, command, len(text) // 4, row


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Small answers at once.
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def body(self):
        if self.headers.get("transfer-encoding") == "chunked":
            raw = b""
            while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            raw = gzip.decompress(raw)
        return raw

    def send(self, kind, data):
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n\r\n"
        self.wfile.write(head.encode() + data)
        self.wfile.flush()

    def do_HEAD(self):
        self.send("application/json", b"")

    def do_GET(self):
        self.send("application/json", b'{"object": "list", "data": [], "models": []}')

    def do_POST(self):
        raw = self.body()
        at = time.monotonic()
        path = self.path.split("?")[0]
        if path.endswith("/count_tokens"):
            return self.send("application/json", b'{"input_tokens": %d}' % (len(raw) // 4))
        wire = next((end for end in WIRES if path.endswith(end)), None)
        if wire is None:
            return self.send("application/json", b"{}")
        body = json.loads(raw)
        number, tool, command, tokens, row = self.server.play.step(body, wire, at)
        whole, events = WIRES[wire](number, body, tool, command, tokens)
        kind, data = "application/json", json.dumps(whole)
        if events is not None:
            kind, data = "text/event-stream", ""
            for name, event in events:
                data += f"event: {name}\n" if name else ""
                data += f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n"
        row["answered"] = time.monotonic()
        self.send(kind, data.encode())


# --- running and weighing ----------------------------------------------------------------------------


def loopback_up():
    """A new network namespace has it switched off."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            flags = struct.unpack("16sh", fcntl.ioctl(own, 0x8913, struct.pack("16sh", b"lo", 0)))[1]
            if not flags & 1:
                fcntl.ioctl(own, 0x8914, struct.pack("16sh", b"lo", flags | 1))
    except OSError as error:
        print(f"loopback: {error}", file=sys.stderr)


def own_memory(pid):
    """The most that the agent's processes had in memory, in bytes, one by one and added. While it
    waits for an answer no command runs: all that is there is the agent."""
    total, waiting = 0, [pid]
    while waiting:
        one = waiting.pop()
        try:
            with open(f"/proc/{one}/status", encoding="utf-8") as file:
                lines = [line.split() for line in file]
            total += sum(int(line[1]) * 1024 for line in lines if line[0] == "VmHWM:")
            for thread in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{thread}/children", encoding="utf-8") as file:
                    waiting += [int(child) for child in file.read().split()]
        except OSError:
            pass  # gone meanwhile
    return total


def run(commands, workspace, twin, out, argv):
    loopback_up()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.play = Play(commands_in(commands), twin)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = str(server.server_address[1])
    argv = [word.replace("{port}", port) for word in argv]
    environment = {key: value.replace("{port}", port) for key, value in os.environ.items()}
    with open(out + ".said", "wb") as said:
        start = time.monotonic()
        agent = subprocess.Popen(
            argv, cwd=workspace, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        server.play.agent = agent.pid
        watch = threading.Timer(TOO_LONG, agent.kill)
        watch.start()
        _, status, usage = os.wait4(agent.pid, 0)
        watch.cancel()
    result = {
        "status": os.waitstatus_to_exitcode(status), "start": start, "end": time.monotonic(),
        # Of the largest process among the agent and its commands, in KiB.
        "largest": usage.ru_maxrss,
        # Of the agent and its commands.
        "cpu": usage.ru_utime + usage.ru_stime,
        "commands": len(server.play.commands), "steps": server.play.next,
        "rows": server.play.rows,
    }
    with open(out, "w", encoding="utf-8") as file:
        json.dump(result, file)


def alone(command, folder):
    """The seconds that a command takes by itself, and those of its processor."""
    start = time.monotonic()
    child = subprocess.Popen(
        ["bash", "-c", command], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    child.stdout.read()
    child.stdout.close()
    _, _, usage = os.wait4(child.pid, 0)
    child.returncode = 0  # it is waited for already
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime


# --- figures -----------------------------------------------------------------------------------------


def figures(result):
    main = [row for row in result["rows"] if row["main"]]
    if not main:
        return None
    aside = [row["bytes"] // 4 for row in result["rows"] if not row["main"]]
    tokens = [row["bytes"] // 4 for row in main]
    cached = [row["shared"] // 4 for row in main]
    pairs = list(zip(main, main[1:]))
    gaps = [(two["at"] - one["answered"]) * 1e3 for one, two in pairs]
    beyond = [gap - one.get("alone", 0) * 1e3 for gap, (one, _) in zip(gaps, pairs)]
    billed = sum(CACHED * old + WRITTEN * (new - old) for new, old in zip(tokens, cached))
    cpu = result["cpu"] - sum(row.get("alone_cpu", 0) for row in main)
    return {
        "first": tokens[0], "total": sum(tokens) + sum(aside),
        "billed": billed + WRITTEN * sum(aside), "peak": max(tokens),
        "hits": 100 * sum(cached[1:]) / max(1, sum(tokens[1:])),
        "gap": statistics.median(gaps) if gaps else 0.0,
        "beyond": statistics.median(beyond) if beyond else 0.0,
        "cpu": cpu * 1e3 / len(main), "start": (main[0]["at"] - result["start"]) * 1e3,
        "memory": max(row["memory"] for row in main) / 1e6, "largest": result["largest"] / 1e3,
    }


COLUMNS = [
    ("first request", "first", "{:,.0f}"), ("total input", "total", "{:,.0f}"),
    ("billed", "billed", "{:,.0f}"), ("peak", "peak", "{:,.0f}"), ("from cache", "hits", "{:.1f}%"),
    ("between requests", "gap", "{:.1f} ms"), ("beyond the command", "beyond", "{:.1f} ms"),
    ("CPU a step beyond it", "cpu", "{:.1f} ms"),
    ("to first request", "start", "{:.0f} ms"), ("agent's memory", "memory", "{:.0f} MB"),
    ("largest process", "largest", "{:.0f} MB"),
]
BARS = {"first": "< 3,500", "beyond": "< 5 ms", "start": "< 50 ms", "memory": "< 48 MB"}


def table(named):
    print("| agent |" + "".join(f" {title} |" for title, _, _ in COLUMNS))
    print("|---|" + "---|" * len(COLUMNS))
    notes = []
    for name, path in (pair.split("=", 1) for pair in named):
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
        row = figures(result)
        if row is None:
            notes.append(f"{name}: it asked nothing, exit status {result['status']}")
            continue
        print(f"| {name} |" + "".join(f" {form.format(row[key])} |" for _, key, form in COLUMNS))
        if result["steps"] != result["commands"] or result["status"] != 0:
            of = f"{result['steps']} of {result['commands']} commands"
            notes.append(f"{name}: {of}, exit status {result['status']}")
        aside = sum(not other["main"] for other in result["rows"])
        if aside:
            notes.append(f"{name}: {aside} requests without a shell are in the totals")
    print("| bar for Baton |" + "".join(f" {BARS.get(key, '')} |" for _, key, _ in COLUMNS))
    print("\n".join(notes))


def main(words):
    match words:
        case ["run", commands, workspace, twin, out, "--", *argv] if argv:
            run(commands, workspace, twin, out, argv)
        case ["table", *named]:
            table(named)
        case _:
            sys.exit(__doc__)


main(sys.argv[1:])
