"""The checker application_created: the applications that there are, against those that the sample
expects (values.applications), each with the fields that it names."""

import json
import sys


def check(question):
    expected = question["sample"].get("values", {}).get("applications")
    if expected is None:
        raise ValueError("the sample gives no values.applications")
    found = question["state"].get("applications", [])
    turns = [
        call["turn"]
        for call in question["tool_calls"]
        if call["name"] == "create_leave_application" and not call["is_error"]
    ]
    if len(found) != len(expected):
        reason = f"expected {len(expected)} applications, found {len(found)}"
        return {"passed": False, "reason": reason, "turns": turns}
    for number, (own, wanted) in enumerate(zip(found, expected), 1):
        for name, value in wanted.items():
            if own.get(name) != value:
                reason = f"application {number}: {name} is {own.get(name)!r}, expected {value!r}"
                return {"passed": False, "reason": reason, "turns": turns[number - 1 : number]}
    return {"passed": True, "reason": f"applications, as expected: {len(found)}"}


for line in sys.stdin:
    print(json.dumps(check(json.loads(line)), ensure_ascii=False), flush=True)
