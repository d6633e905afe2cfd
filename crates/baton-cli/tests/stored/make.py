#!/usr/bin/env python3
"""Makes the stored blackboards of one version of baton.

    make.py BATON WORK OUT [NAME ...]

BATON is the program of that version, WORK an empty folder in which the projects are made (its path
ends up in the transcripts), OUT the folder that gets one folder per blackboard. Every stage is run
by the built-in agent against a scripted model that this script serves over HTTP. With names, only
these blackboards are made.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HANG = {"hang": True}


def text(words):
    return {"role": "assistant", "content": words}


def calls(*all_calls):
    def one(index, call):
        name, arguments = call
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {"index": index, "type": "function", "function": function}

    calls_made = [one(index, call) for index, call in enumerate(all_calls)]
    return {"role": "assistant", "content": None, "tool_calls": calls_made}


def bash(command):
    return calls(("Bash", {"command": command}))


def status(code, message, kind):
    return {"status": code, "error": {"message": message, "type": kind, "code": kind}}


class Model:
    """Serves answers in a row, or those of a function (number, request) -> answer."""

    def __init__(self, answers):
        model = self
        self.requests = []
        self.answer = answers if callable(answers) else lambda n, _: answers[min(n, len(answers) - 1)]
        self.ids = 0
        lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with lock:
                    number = len(model.requests)
                    model.requests.append(body)
                    answer = dict(model.answer(number, body))
                    for call in answer.get("tool_calls", []):
                        model.ids += 1
                        call["id"] = f"call_{model.ids}"
                if "hang" in answer:
                    self.rfile.read(1)
                    self.close_connection = True
                    return
                if "status" in answer:
                    self.reply(answer["status"], "application/json", json.dumps({"error": answer["error"]}))
                    return
                finish = "tool_calls" if "tool_calls" in answer else "stop"
                usage = {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020}

                def chunk(delta, finish, usage):
                    choice = {"index": 0, "delta": delta, "finish_reason": finish}
                    whole = {"id": f"chat_{number}", "object": "chat.completion.chunk", "created": 0,
                             "model": "scripted", "choices": [choice], "usage": usage}
                    return f"data: {json.dumps(whole)}\n\n"

                stream = chunk(answer, None, None) + chunk({}, finish, usage) + "data: [DONE]\n\n"
                self.reply(200, "text/event-stream", stream)

            def reply(self, code, kind, body):
                body = body.encode()
                self.send_response(code)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"


PLAN = """# Plan

## Milestone M1: Safe

### M1-T1: add checks its arguments
- status: IN_PROGRESS
- test_required: true
- acceptance: add.sh exits 1 when an argument is missing
- evidence: none yet
"""


def decision(next_agent, plan=None, **more):
    whole = {"next_agent": next_agent, "reason": "M1-T1 is next", "dev_plan": plan,
             "finish_review_override": None}
    if next_agent in ("TEST", "DEV", "REVIEW", "INIT", "EXECUTE"):
        whole["task"] = f"M1-T1: the part of {next_agent}. Minimum coverage 80%."
    whole.update(more)
    return text(json.dumps(whole, ensure_ascii=False))


def report(iteration, verdict, blockers="none", more=""):
    return text(f"iteration: {iteration}\nverdict: {verdict}\nblockers: {blockers}\n{more}\nTasks: M1-T1\n")


def report_zh(iteration, verdict, blockers="无", more=""):
    return text(f"iteration: {iteration}\n结论：{verdict}\n阻塞：{blockers}\n{more}\n任务：M1-T1\n")


TESTED = "test command: sh tests/add.sh\nfailed cases: none\ncoverage: 90%\n"
DONE = "update M1-T1 status to DONE"
VERIFIED = "update M1-T1 status to VERIFIED"
# Every act leaves a line: an act that is repeated shows.
ADD_TEST = bash("echo 'TEST writes the test' >> acts.log; printf '! sh src/add.sh 1\\n' > tests/add.sh")
RUN_TEST = bash("echo 'TEST runs the test' >> acts.log; sh tests/add.sh; echo exit $?")
REPAIR = bash("echo 'DEV repairs add' >> acts.log; sed -i '1a [ $# = 2 ] || exit 1' src/add.sh")
READ = calls(("Read", {"path": "src/add.sh"}), ("Grep", {"pattern": "echo", "path": "src"}))
FIRST = decision("TEST", {"replace": PLAN})
LIMIT_OF_WAITING = 60


def finished(rep=report, none="none"):
    fail = "\n- [impl] src/add.sh:2 a missing argument is not noticed"
    tested = TESTED if none == "none" else "测试命令：sh tests/add.sh\n失败用例：无\ncoverage: 90%\n"
    return [
        FIRST, READ, ADD_TEST, RUN_TEST, rep(1, "FAIL", fail),
        READ, REPAIR, rep(1, "PASS"),
        bash("echo 'TEST runs the test again' >> acts.log; sh tests/add.sh"), rep(1, "PASS", none, tested),
        decision("REVIEW", DONE), READ, rep(2, "PASS"),
        decision("FINISH", VERIFIED), READ, rep(3, "PASS"), decision("FINISH"),
    ]


QUESTION = decision("USER", None, question={
    "title": "Which way?", "text": "Exit 1, or read the argument from the input?",
    "options": [{"option_id": "exit", "description": "Exit 1"},
                {"option_id": "read", "description": "Read it"}],
    "recommended_option_id": "exit"})


class Case:
    def __init__(self, baton, work, name, pack="tdd", lang="en"):
        self.baton, self.work, self.name, self.pack, self.lang = baton, work, name, pack, lang
        self.coverage = None
        self.project = os.path.join(work, "project")
        for folder in ("project", "home"):
            shutil.rmtree(os.path.join(work, folder), ignore_errors=True)
        os.makedirs(os.path.join(self.project, "src"))
        os.makedirs(os.path.join(self.project, "tests"))
        os.makedirs(os.path.join(work, "home", ".config", "baton"))
        self.write("src/add.sh", "#!/bin/sh\necho $(($1 + $2))\n")
        self.write("acts.log", "")

    def write(self, name, content):
        path = os.path.join(self.project, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)

    def read(self, name):
        try:
            with open(os.path.join(self.project, name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def start(self, *args):
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": os.path.join(self.work, "home"),
                       "LANG": "C.UTF-8"}
        return subprocess.Popen([self.baton, *args], cwd=self.project, env=environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, start_new_session=True)

    def expect(self, code, *args):
        child = self.start(*args)
        said = child.communicate()[0].decode()
        if child.returncode != code:
            sys.exit(f"{self.name}: {args} ended with {child.returncode}, not {code}:\n{said}")
        return said

    def init(self):
        self.expect(0, "init", "--pack", self.pack, "--lang", self.lang)
        if self.coverage is not None:
            name = ".baton/memory/verification_policy.json"
            policy = json.loads(self.read(name))
            policy["tdd_rules"]["min_coverage"] = self.coverage
            self.write(name, json.dumps(policy, ensure_ascii=False, indent=2) + "\n")

    def arguments(self, model, *more):
        return ["run", "Make add check its arguments", "--provider", "openai-chat",
                "--base-url", model.url, "--model", "scripted", *more]

    def run(self, code, answers, *more):
        self.init()
        return self.expect(code, *self.arguments(Model(answers), *more))

    def kill(self, answers, is_there, *more):
        """Ends the run with SIGKILL as soon as the condition holds."""
        self.init()
        model = Model(answers)
        child = self.start(*self.arguments(model, *more))
        begun = time.monotonic()
        while not is_there(model):
            if child.poll() is not None or time.monotonic() - begun > LIMIT_OF_WAITING:
                os.killpg(child.pid, signal.SIGKILL)
                sys.exit(f"{self.name}: it did not come so far:\n{child.communicate()[0].decode()}")
            time.sleep(0.02)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()

    def keep(self, out):
        kept = os.path.join(out, self.name)
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self.project, kept)
        # Empty folders and locks are not kept by git, and are not needed.
        for folder, _, files in os.walk(kept):
            for file in files:
                if file.endswith(".lock"):
                    os.remove(os.path.join(folder, file))


def hangs_at(count):
    """The model has been asked for the last time."""
    return lambda model: len(model.requests) >= count


# Blackboards.

def finished_en(case):
    case.run(0, finished())


def finished_zh(case):
    case.lang = "zh"
    case.run(0, finished(report_zh, "无"))


def question(case):
    case.run(10, [FIRST, ADD_TEST, RUN_TEST, report(1, "PASS", more=TESTED), QUESTION])


def own_policy(case):
    case.coverage = 70
    question(case)


def refused_report(case):
    wrong = text("iteration: 1\nverdict: PASS\nblockers:\n- [impl] src/add.sh:2 it is not done\n\nM1-T1\n")
    case.run(3, [FIRST, READ, ADD_TEST, wrong, report(1, "PASS", more=TESTED)])


def refused_decision(case):
    wrong = text("Here is my decision: DEV")
    case.run(3, [wrong, wrong])


def subloop(case):
    fail = report(1, "FAIL", "\n- [impl] src/add.sh:2 a missing argument is not noticed")
    answers = [FIRST, ADD_TEST, fail, READ, REPAIR, HANG]
    case.kill(answers, hangs_at(6))


def stage_whole(case):
    answers = [FIRST, READ, ADD_TEST, RUN_TEST, HANG]
    case.kill(answers, hangs_at(5))


def stage_unknown(case):
    slow = bash("echo 'TEST begins something long' >> acts.log; sleep 50; echo done >> acts.log")
    answers = [FIRST, READ, ADD_TEST, slow]
    case.kill(answers, lambda _: "something long" in case.read("acts.log"))


def denied(case):
    no = status(401, "the key is not valid", "invalid_api_key")
    case.run(1, [FIRST, READ, ADD_TEST, no])


def quota(case):
    no = status(402, "the account has no credit left", "insufficient_quota")
    case.run(1, [FIRST, READ, ADD_TEST, no])


def limit(case):
    case.run(4, [FIRST, ADD_TEST, report(1, "PASS", more=TESTED), decision("REVIEW", DONE)],
             "--max-iterations", "1")


def evaluation(case):
    case.pack = "scenario"
    mark = "while read -r line; do echo '{\"result\":\"marked\",\"state\":{\"marked\":true}}'; done"
    folder = "scenarios/small"
    tools = {"tools": [{"name": "mark", "description": "marks", "parameters": {"type": "object"},
                        "command": ["sh", "-c", mark], "stays": True}]}
    checkers = {"checkers": [{"name": "is_marked", "description": "it is marked",
                              "assert": [{"equals": {"path": "/marked", "value": True}}]}]}

    def sample(number):
        name = f"s{number}"
        return {"sample_id": name, "title": name, "user": {"turns": [name]},
                "initial_state": {"marked": False}, "values": {}, "checkers": ["is_marked"]}

    def write(name, content):
        return ("Write", {"path": f"{folder}/{name}", "content": content})

    design = [write("unified_scenario_design.yaml", "scenario_name: small\n"),
              write("BusinessRules.md", "# Rules\n\nAlways mark.\n"),
              write("format_specifications.json", "{}\n")]
    parts = [write("tools.json", json.dumps(tools)), write("checkers.json", json.dumps(checkers))]
    parts += [write(f"samples/s{n}.json", json.dumps(sample(n))) for n in range(1, 5)]
    team = [decision("INIT", {"replace": PLAN.replace("- test_required: true\n", "")}),
            bash("echo 'INIT writes the design' >> acts.log"), calls(*design), report(1, "PASS"),
            decision("EXECUTE", None),
            bash("echo 'EXECUTE writes the parts' >> acts.log"), calls(*parts), report(2, "PASS")]
    at = {"team": 0, "hangs": False}

    def answer(_, body):
        messages = body["messages"]
        first = next(own["content"] for own in messages if own["role"] == "user")
        if first in ("s1", "s2", "s3", "s4"):
            if any(own["role"] == "tool" for own in messages):
                return text("done")
            if first == "s3":
                at["hangs"] = True
                return HANG
            return calls(("mark", {}))
        at["team"] += 1
        return team[at["team"] - 1]

    with open(os.path.join(case.work, "home/.config/baton/baton.toml"), "w", encoding="utf-8") as file:
        file.write("[approval]\nby_yes = true\n[scenario]\njobs = 1\n")
    results = os.path.join(case.project, folder, "execution_outputs/iteration_1/evaluation_results")

    def is_there(_):
        # The results of the first two samples are on the disk, the third one waits.
        return at["hangs"] and os.path.isdir(results) and len(os.listdir(results)) >= 2

    case.kill(answer, is_there, "--scenario", "small", "--yes")


CASES = {
    "finished": finished_en, "finished_zh": finished_zh, "question": question,
    "own_policy": own_policy,
    "refused_report": refused_report, "refused_decision": refused_decision, "subloop": subloop,
    "evaluation": evaluation, "stage_whole": stage_whole, "stage_unknown": stage_unknown,
    "denied": denied, "quota": quota, "limit": limit,
}


def main():
    baton, work, out, *names = sys.argv[1:]
    for name in names or CASES:
        case = Case(os.path.abspath(baton), os.path.abspath(work), name)
        CASES[name](case)
        case.keep(os.path.abspath(out))
        print(f"{name}: acts {case.read('acts.log').splitlines()}")


if __name__ == "__main__":
    main()
