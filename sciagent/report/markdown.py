"""The plain report of a campaign in Markdown: what was found, how sure, at which level, for what, why others fell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.quantities import show
from sciagent.store import campaigns, queries
from sciagent.store import tables as t
from sciagent.store.campaigns import CampaignRow
from sciagent.store.ledger import Ledger

MAX_BEST = 20
MAX_REASONS = 30


def write_report(ledger: Ledger, name: str, path: Path) -> None:
    """Write it whole or not at all."""
    with ledger.read() as connection:
        text = report(connection, campaigns.get(connection, name))
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def report(connection: Connection, row: CampaignRow) -> str:
    status = queries.status(connection, row)
    parts = [
        f"# {row.name}",
        row.spec.get("description", ""),
        _outcome(status, row.spec["goal"]["kind"]),
        _goal(row),
        _funnel(status),
    ]
    parts += [_best(connection, row), _reasons(connection, row), _provenance(connection, row)]
    return "\n\n".join(p.strip() for p in parts if p.strip()) + "\n"


def _outcome(status: dict[str, Any], kind: str) -> str:
    spent = status["spent"]
    found = f"**{status['hits']} {'hit' if status['hits'] == 1 else 'hits'}** among {status['candidates']} candidates"
    if kind != "hits":
        found = f"**{status['rungs'][-1]['done']} verified** of {status['candidates']} candidates"
    lines = [
        f"{found} from {status['proposals']} proposals, for {spent['core_seconds']:.0f} core-seconds "
        f"and {spent['wall_minutes']:.1f} minutes on the clock.",
        f"State: {status['state']}" + (f" ({status['stop_reason']})." if status["stop_reason"] else "."),
    ]
    if status["reused"]:
        lines.append(f"{status['reused']} answers were known from earlier work and cost nothing.")
    return "  \n".join(lines)


def _goal(row: CampaignRow) -> str:
    lines = ["## What was asked"]
    for o in row.spec["objectives"]:
        accept = o.get("accept")
        unit = "" if o["unit"] == "1" else f" {o['unit']}"
        ramp = o.get("ramp")
        wish = f"{o['direction']} {o['property']}, from {ramp[0]:g} (worst) to {ramp[1]:g} (best){unit}" if ramp else ""
        limits = f"{_edges(accept, o['property'])}{unit}" if accept else ""
        wish = "; ".join(part for part in (wish, limits) if part)
        lines.append(f"- {wish}, decided by the rung `{row.spec['terminal']}`")
    if any(o["property"] == "homo_lumo_gap" for o in row.spec["objectives"]):
        lines.append("\nThe gap is an **orbital gap, not optical**: LUMO minus HOMO energy of the stated method.")
    return "\n".join(lines)


def _edges(accept: list[float | None], name: str) -> str:
    low, high = accept
    return f"{'' if low is None else f'{low:g} ≤ '}{name}{'' if high is None else f' ≤ {high:g}'}"


def _funnel(status: dict[str, Any]) -> str:
    head = "| rung | tier | done | passed | failed | undecided | errors | core-seconds |\n"
    head += "|---|---|--:|--:|--:|--:|--:|--:|"
    body = [
        f"| {r['rung']} | {r['tier']} | {r['done']} | {r['passed']} | {r['failed']} | {r['inconclusive']} "
        f"| {r['errors']} | {r['core_seconds']:.1f} |"
        for r in status["rungs"]
    ]
    return "\n".join(["## The ladder", head, *body])


def _best(connection: Connection, row: CampaignRow) -> str:
    goal = row.spec["goal"]
    n = goal["count"] if goal["kind"] != "hits" and goal.get("count") else MAX_BEST
    rows = [r for r in queries.best(connection, row, n) if r["hit"] or r["verified"] or r["score"] is not None]
    if not rows:
        return "## The best\n\nNothing has been measured at a paid rung yet."
    names = [o["property"] for o in row.spec["objectives"]]
    lines = [
        "## The best",
        "| SMILES | " + " | ".join(names) + " | level | verdict |",
        "|---|" + "--:|" * len(names) + "---|---|",
    ]
    for r in rows:
        values = [r["values"].get(n) for n in names]
        level = "; ".join(dict.fromkeys(v["level"] for v in values if v))
        verdict = "**hit**" if r["hit"] else ("verified" if r["verified"] else "not verified yet")
        if r["reason"]:  # a gate's or objective's detail opens with the property
            what = (r["detail"] or "").partition(" = ")
            verdict = f"{what[0]} {r['reason']}" if what[1] else r["reason"]
        verdict += ", a seed" if r["in_seeds"] else ""
        lines.append(f"| `{r['smiles']}` | " + " | ".join(_value(v) for v in values) + f" | {level} | {verdict} |")
    lines.append(
        "\nUncertainties are standard uncertainties (k = 1) of the protocol's repeatability, "
        "not the error of the method."
    )
    return "\n".join(lines)


def _value(v: dict[str, Any] | None) -> str:
    if v is None:
        return "–"
    return show(v["value"], v["uncertainty"], v["unit"])


def _reasons(connection: Connection, row: CampaignRow) -> str:
    cc, p = t.campaign_candidate.c, t.proposal.c
    labels = {r.position: r.name for r in campaigns.rungs(connection, row.id)}
    fell = connection.execute(
        sa.select(cc.position, cc.reason, sa.func.count(), sa.func.min(cc.detail))
        .where(cc.campaign_id == row.id, cc.reason.is_not(None))
        .group_by(cc.position, cc.reason)
        .order_by(cc.position, sa.func.count().desc())
        .limit(MAX_REASONS)
    ).all()
    refused = connection.execute(
        sa.select(p.status, p.reason, sa.func.count(), sa.func.min(p.text))
        .where(p.campaign_id == row.id, p.status != "new")
        .group_by(p.status, p.reason)
        .order_by(sa.func.count().desc())
        .limit(MAX_REASONS)
    ).all()
    if not fell and not refused:
        return ""
    lines = ["## Why the others fell", "| where | reason | n | for example |", "|---|---|--:|---|"]
    for _, reason, n, example in refused:
        lines.append(f"| proposal | {reason or 'a duplicate'} | {n} | `{_cell(example)[:80]}` |")
    for position, reason, n, example in fell:
        lines.append(f"| {labels[position]} | {reason} | {n} | {_cell(example)} |")
    return "\n".join(lines)


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|").replace("\n", " ")[:1000]


def _provenance(connection: Connection, row: CampaignRow) -> str:
    lines = ["## Provenance", f"Spec {row.spec_hash[:12]}, seed {row.spec['seed']}.", ""]
    lines += ["| rung | verifier | version | settings |", "|---|---|---|---|"]
    for one, rung in zip(row.spec["ladder"], campaigns.rungs(connection, row.id), strict=True):
        settings = ", ".join(f"{k} = {v}" for k, v in one["settings"].items())
        lines.append(f"| {rung.name} | {rung.verifier} | {rung.verifier_version} | {_cell(settings)} |")
    versions = connection.execute(
        sa.select(t.evidence.c.versions)
        .join(t.attempt, t.attempt.c.id == t.evidence.c.attempt_id)
        .where(t.attempt.c.campaign_id == row.id)
        .order_by(t.evidence.c.id.desc())
        .limit(50)
    ).scalars()
    merged: dict[str, str] = {}
    for one in versions:
        merged.update(one or {})
    if merged:
        lines.append("\nComputed with " + ", ".join(f"{k} {v}" for k, v in sorted(merged.items())) + ".")
    return "\n".join(lines)
