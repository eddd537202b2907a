"""Tools that show or record something: inspect, best, history, budget, note, finish."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sciagent.agent.tools.references import find, number_of
from sciagent.agent.tools.registry import Observation, ToolContext
from sciagent.domain.text import escaped, short

MAX_RESULTS = 8  # largest number of rungs whose results are shown
Remark = Annotated[str, Field(min_length=1, max_length=500)]
Count = Annotated[int, Field(ge=1, le=20)]


def inspect(run: ToolContext, candidate: str) -> Observation:
    """Show one {one}: formula, what was measured of it, and the sites where `modify` can edit it, by number."""
    found = find(candidate, run)
    known = run.bench.known(found)
    stands = "known here" if known else "not proposed yet"
    lines = [f"{found.text} [{found.key[:8]}] {run.subject.described(found)}, {stands}"]
    if known:
        lines += [short(line, 160) for line in run.bench.results_of(found.key)[:MAX_RESULTS]]
    if run.subject.edits is not None:
        lines += run.subject.edits.described_sites(found)
    return Observation(True, "\n".join(lines))


def best(run: ToolContext, n: Count = 10) -> Observation:
    """List the best {many} so far by score, 0 to 1, each with its number, its key and how it was made."""
    lines = [
        f"#{number_of(row.text, run.numbered)} {row.score:.3f} {run.subject.shown(row.text)} [{row.key[:8]}] "
        f"{short(row.operation, 100)}".rstrip()
        for row in run.bench.best(n)
    ]
    return Observation(True, "\n".join(lines) or "nothing is scored yet; propose something")


def history(run: ToolContext, n: Count = 10) -> Observation:
    """List the last proposals, latest first, and what became of each."""
    lines = []
    for row in run.bench.recent(n):
        score = "" if row["score"] is None else f" {row['score']:.3f}"
        why = f" ({short(row['reason'], 80)})" if row["reason"] else ""
        text, stands = short(run.subject.shown(row["text"]), 120), row["standing"] or row["status"]
        line = f"{text}{score} {stands}{why} {short(row['operation'], 100)}"
        lines.append(line.rstrip())
    return Observation(True, "\n".join(lines) or "nothing was proposed yet")


def budget(run: ToolContext) -> Observation:
    """Tell the goal and what may still be spent."""
    left = ", ".join(f"{short(name)} {amount:g}" for name, amount in run.bench.left().items())
    return Observation(True, f"goal: {run.bench.goal()[:1200]}\nleft: {left or 'no limit'}")


def note(run: ToolContext, text: Remark) -> Observation:
    """Keep a remark for later episodes: what worked, what did not, what to try."""
    run.bench.note(escaped(text))
    return Observation(True, "kept")


def finish(run: ToolContext, reason: Remark) -> Observation:
    """End the episode, with a reason."""
    return Observation(True, "finished", ended=True)
