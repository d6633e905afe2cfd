"""The three tools of the leave scenario, in one program that stays alive.

One line of JSON in: {"tool": ..., "arguments": {...}, "state": {...}}
One line of JSON out: {"result": ..., "state": {...}} or {"error": "..."}
"""

import json
import sys

HOURS_A_DAY = 7.5


class Refused(Exception):
    pass


def employee_of(arguments, state):
    number = arguments["employee_id"]
    employee = state.get("employees", {}).get(number)
    if employee is None:
        raise Refused(f"there is no employee {number}")
    return number, employee


def get_employee_info(arguments, state):
    number, employee = employee_of(arguments, state)
    info = {"employee_id": number, **employee}
    info["year"] = state["year"]
    info["company_holidays"] = state.get("company_holidays", [])
    return info


def create_leave_application(arguments, state):
    number, _ = employee_of(arguments, state)
    if arguments["end_date"] < arguments["start_date"]:
        raise Refused("the leave ends before it begins")
    if arguments["days"] <= 0:
        raise Refused("the leave has no days")
    applications = state.setdefault("applications", [])
    application = {"application_id": f"LA{len(applications) + 1:03}", "employee_id": number}
    for name in ("leave_type", "start_date", "end_date", "days", "hours"):
        if name in arguments:
            application[name] = arguments[name]
    # Annual leave waits until it is taken off the balance.
    application["status"] = "pending" if arguments["leave_type"] == "annual" else "registered"
    applications.append(application)
    return application


def update_employee_leave_balance(arguments, state):
    number, employee = employee_of(arguments, state)
    wanted = arguments["application_id"]
    found = [one for one in state.get("applications", []) if one["application_id"] == wanted]
    if not found:
        raise Refused(f"there is no application {wanted}")
    balance = employee["leave_balance"]
    if "hours" in arguments:
        # Booked hour by hour, as the time clock does it.
        for _ in range(round(arguments["hours"])):
            balance -= 1 / HOURS_A_DAY
    else:
        balance -= arguments["days"]
    if balance < -0.01:
        raise Refused("the balance does not suffice")
    employee["leave_balance"] = balance
    found[0]["status"] = "approved"
    return {"employee_id": number, "leave_balance": balance}


TOOLS = {
    "get_employee_info": get_employee_info,
    "create_leave_application": create_leave_application,
    "update_employee_leave_balance": update_employee_leave_balance,
}


def answer(line):
    question = json.loads(line)
    state = question["state"]
    try:
        result = TOOLS[question["tool"]](question["arguments"], state)
    except Refused as why:
        return {"error": str(why)}
    except KeyError as name:
        return {"error": f"this is missing: {name}"}
    return {"result": result, "state": state}


for line in sys.stdin:
    print(json.dumps(answer(line), ensure_ascii=False), flush=True)
