"""The same workload on LangGraph with SqliteSaver, durability "sync": two nodes an iteration (a decision
and a report), a kilobyte more of history each time, an instant model. Prints milliseconds an
iteration and bytes on disk."""

import operator
import os
import sqlite3
import sys
import tempfile
import time
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    iteration: int
    history: Annotated[list[str], operator.add]
    report: str


REASON = "iteration {} goes on with the work that the last report named. " * 12
EVIDENCE = "- a line of evidence\n" * 40
MARKS = []


def decide(state: State):
    number = state["iteration"] + 1
    return {"iteration": number, "history": [REASON.replace("{}", str(number))]}


def work(state: State):
    MARKS.append(time.perf_counter())
    return {"report": f"iteration: {state['iteration']}\nverdict: FAIL\n{EVIDENCE}"}


def main(iterations: int):
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "checkpoints.sqlite")
    connection = sqlite3.connect(path, check_same_thread=False)
    graph = StateGraph(State)
    graph.add_node("decide", decide)
    graph.add_node("work", work)
    graph.add_edge(START, "decide")
    graph.add_edge("decide", "work")
    graph.add_conditional_edges("work", lambda state: END if state["iteration"] >= iterations else "decide")
    app = graph.compile(checkpointer=SqliteSaver(connection))
    config = {"configurable": {"thread_id": "1"}, "recursion_limit": iterations * 2 + 10}
    start = time.perf_counter()
    app.invoke({"iteration": 0, "history": [], "report": ""}, config, durability="sync")
    total = time.perf_counter() - start
    span = min(100, len(MARKS) - 1)
    first = (MARKS[span] - MARKS[0]) / span * 1e3
    last = (MARKS[-1] - MARKS[-1 - span]) / span * 1e3
    size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    begin = time.perf_counter()
    app.get_state(config)
    resume = (time.perf_counter() - begin) * 1e3
    print(f"langgraph: {iterations} iterations in {total:.1f} s; first 100 {first:.2f} ms, last 100 {last:.2f} ms an iteration; {size / 1e6:.1f} MB on disk; state read again in {resume:.1f} ms")


main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
