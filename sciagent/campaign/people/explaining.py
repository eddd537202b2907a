"""What is known of one candidate, and why it stands where it stands: from the ledger alone.

Verdicts are worked out again from gates and evidence, with the campaign's own rules as they are stored, so a verifier
whose package is gone or has changed since does not stand in the way. Only what an open candidate of a priced campaign
promises needs them; see `outlooks`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.core.judge import RungRules, RungTerms, judge, ladder_rules, show_window
from sciagent.domain.answers.model import plain
from sciagent.domain.evidence import Measured
from sciagent.domain.objectives import Window
from sciagent.domain.outcomes import Outcome, Reason, Verdict
from sciagent.domain.states import Standing
from sciagent.errors import UnknownNameError
from sciagent.report.answers.best import imported_values
from sciagent.store.campaign_state import campaigns, directives, standings
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import history, queries, report_candidates

WAITS = (Standing.OPEN, Standing.HELD)
MAX_TEXT = 4000  # of a proposal, as the workbench keeps it


def explain(
    connection: Connection, candidate_id: int, rows: Sequence[CampaignRow], ledger: Ledger | None = None
) -> dict[str, Any]:
    """The JSON of `sciagent explain`. rows: the campaigns to tell of. ledger: where an open candidate's outlook is to
    be worked out, too; it is only read."""
    one = history.candidate(connection, candidate_id)
    found = history.evidence(connection, candidate_id)
    n, first = history.children(connection, candidate_id)
    told = [_campaign(connection, row, candidate_id, found, ledger) for row in rows]
    from_files = report_candidates.imported(connection, [candidate_id])
    used = {r["evidence"]["key"] for c in told for r in c["rungs"] if r["evidence"]}
    return {
        "key": one["key"],
        "smiles": one["text"],
        "kind": one["kind"],
        "inchikey": one["inchikey"],
        "formula": one["formula"],
        "charge": one["charge"],
        "multiplicity": one["multiplicity"],
        "atoms": one["n_atoms"],
        "first_seen": one["created_at"],
        "also_given_as": [x for x in history.aliases(connection, candidate_id) if x != one["text"]],
        "children": {"n": n, "first": [{"key": k, "smiles": s} for k, s in first]},
        "campaigns": told,
        "imported": plain(imported_values(from_files.get(candidate_id, []))),
        "other_evidence": [_evidence(e) for e in found if e["key"] not in used and e["verifier"] != queries.IMPORT],
    }


def _campaign(
    connection: Connection,
    row: CampaignRow,
    candidate_id: int,
    found: Sequence[Mapping[str, Any]],
    ledger: Ledger | None,
) -> dict[str, Any]:
    stands = standings.get(connection, row.id, candidate_id)
    ladder = campaigns.rungs(connection, row.id)
    decided = _decisions(connection, row, candidate_id)
    tried = history.attempts(connection, row, candidate_id, [r.id for r in ladder])
    said = directives.on(connection, row.id, candidate_id)
    rules = _rules(row, ladder, found)
    rungs = [
        _rung(
            row,
            rung,
            rule,
            found,
            [d for d in decided if d["rung"] == rung.name],
            [a for a in tried if a["rung"] == rung.name],
        )
        for rung, rule in zip(ladder, rules, strict=True)
    ]
    told = {
        "campaign": row.name,
        "state": str(row.state),
        "scheduler": row.spec["scheduler"]["kind"],
        "standing": stands["standing"],
        "rung": ladder[min(stands["position"], len(ladder) - 1)].name,
        "verdict": stands["verdict"],
        "reason": stands["reason"],
        "detail": stands["detail"] or "",
        "score": stands["score"],
        "utility": stands["utility"],
        "hit": bool(stands["is_hit"]),
        "in_seeds": bool(stands["in_seeds"]),
        "proposed": _proposed(connection, row, candidate_id, said),
        "rungs": rungs,
        "people": [{"verb": str(d.verb), "rung": d.rung, "who": d.who, "why": d.why, "at": d.at} for d in said],
        "core_seconds": round(sum(r["core_seconds"] for r in rungs), 3),
    }
    told["outlook"] = None
    if ledger is not None and told["scheduler"] == "priced" and Standing(told["standing"]) in WAITS:
        from sciagent.campaign.pricing.forecast import outlook  # takes a second to import

        told["outlook"] = outlook(ledger, connection, row, candidate_id)
    return told | {"why": _why(connection, row, ladder, stands, told)}


def _decisions(connection: Connection, row: CampaignRow, candidate_id: int) -> list[dict[str, Any]]:
    """With the law and the price that each was made by."""
    d = t.decision.c
    query = (
        sa.select(d.law_version, d.price)
        .where(d.campaign_id == row.id, d.candidate_id == candidate_id)
        .order_by(d.id)
        .limit(history.MANY)
    )
    made = history.decisions(connection, row, candidate_id)
    by = connection.execute(query).all()
    return [{**one, "law_version": law, "price": price} for one, (law, price) in zip(made, by, strict=True)]


def _rules(row: CampaignRow, ladder: Sequence[RungRow], found: Sequence[Mapping[str, Any]]) -> Sequence[RungRules]:
    """The rules as the spec in the ledger states them, in canonical units."""
    terms = [
        RungTerms(
            rung.tier,
            {name: Window(*limits) for name, limits in stated["gate"].items()},
            stated.get("on_refusal") == "drop",
            frozenset(_measures(stated, rung, found)),
        )
        for stated, rung in zip(row.spec["ladder"], ladder, strict=True)
    ]
    accept = {o["property"]: Window(*o["accept"]) if o.get("accept") else None for o in row.spec["objectives"]}
    terminal = [rung.name for rung in ladder].index(row.spec["terminal"])
    return ladder_rules(terms, accept, terminal, row.spec["scheduler"]["kind"])


def _measures(one: Mapping[str, Any], rung: RungRow, found: Sequence[Mapping[str, Any]]) -> set[str]:
    """What the rung can measure: by its verifier, or, where that is gone, what it has measured here."""
    from sciagent.errors import UsageError
    from sciagent.verification.registry import verifier_class

    seen = {m.property for e in found if _is_of(e, rung) for m in e["measured"]}
    try:
        return seen | {m.property.name for m in verifier_class(rung.verifier)(one["settings"]).measures}
    except (UsageError, ValueError, TypeError, OSError):
        return seen


def _is_of(one: Mapping[str, Any], rung: RungRow) -> bool:
    mine = (rung.verifier, rung.verifier_version, rung.settings_hash)
    return (one["verifier"], one["verifier_version"], one["settings_hash"]) == mine and one["is_current"]


def _rung(
    row: CampaignRow,
    rung: RungRow,
    rules: RungRules,
    found: Sequence[Mapping[str, Any]],
    decided: Sequence[Mapping[str, Any]],
    tried: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    spec = row.spec["ladder"][rung.position]
    current = next((e for e in found if _is_of(e, rung)), None)
    verdict = None
    if current is not None:
        reason = Reason(current["reason"]) if current["reason"] else None
        verdict = judge(rules, Outcome(current["outcome"]), reason, current["detail"] or "", current["measured"])
    last = next((a for a in reversed(tried) if a["outcome"]), None)
    reused = current is not None and current["campaign"] != row.name
    cost = sum(float((a["cost"] or {}).get("core_seconds", 0.0)) for a in tried)
    if current is not None and not tried and not reused:
        cost = _share(current)
    return {
        "rung": rung.name, "tier": rung.tier, "verifier": rung.verifier, "version": rung.verifier_version,
        "settings": spec["settings"], "gate": [show_window(n, w) for n, w in rules.gate.items()],
        "objectives": [show_window(n, w) for n, w in rules.accept.items()], "is_terminal": rules.is_terminal,
        "outcome": current["outcome"] if current else (last["outcome"] if last else None),
        "verdict": str(verdict.verdict) if verdict else _by_attempt(last),
        "reason": (str(verdict.reason) if verdict and verdict.reason else None) if verdict else
                  (last["reason"] if last else None),
        "detail": verdict.detail if verdict else ((last["detail"] or "") if last else ""),
        "job": tried[0]["job"] if tried else None,
        "reused": reused, "core_seconds": round(cost, 3),
        "attempts": [
            {
                "state": a["state"], "outcome": a["outcome"], "reason": a["reason"], "detail": a["detail"] or "",
                "core_seconds": float((a["cost"] or {}).get("core_seconds", 0.0)), "wall_seconds": a["wall_seconds"],
                "started_at": a["started_at"], "host": (a["owner"] or "").rsplit(":", 3)[0],
            }
            for a in tried if a["state"]
        ],
        "decisions": [
            {k: d[k] for k in ("action", "chooser", "why", "index", "price", "law_version", "propensity", "watermark",
                               "at")}
            for d in decided
        ],
        "evidence": _evidence(current) if current is not None else None,
    }  # fmt: skip


def _by_attempt(last: Mapping[str, Any] | None) -> str | None:
    """What an attempt alone says: a limit that was hit, a crash."""
    if last is None:
        return None
    verdict = Outcome(last["outcome"]).rule.verdict
    return str(verdict) if verdict in (Verdict.INCONCLUSIVE, Verdict.ERROR) else None


def _share(one: Mapping[str, Any]) -> float:
    """Core-seconds of one candidate of a batch."""
    return float((one["attempt_cost"] or {}).get("core_seconds", 0.0)) / max(int(one["n_candidates"] or 1), 1)


def _evidence(one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "key": one["key"], "verifier": one["verifier"], "version": one["verifier_version"],
        "settings_hash": one["settings_hash"], "outcome": one["outcome"], "reason": one["reason"],
        "detail": one["detail"] or "", "values": [_value(m) for m in one["measured"]], "versions": one["versions"],
        "source": one["source"], "who": one["who"], "why": one["why"], "at": one["at"], "revision": one["revision"],
        "is_current": one["is_current"], "watermark": one["watermark"], "campaign": one["campaign"],
        "core_seconds": round(_share(one), 3), "files": one["files"],
    }  # fmt: skip


def _value(m: Measured) -> dict[str, Any]:
    q = m.quantity
    return {
        "property": m.property,
        "value": q.value,
        "uncertainty": q.uncertainty,
        "unit": q.unit,
        "censoring": str(q.censoring),
        "level": m.level.label,
        "n": q.n,
    }


def _proposed(
    connection: Connection, row: CampaignRow, candidate_id: int, said: Sequence[directives.Directive]
) -> list[dict[str, Any]]:
    rows = history.proposals(connection, row, candidate_id)
    made = history.parents(connection, [r["id"] for r in rows], candidate_id)
    people = iter([d for d in said if d.verb == "add"])
    found = []
    for r in rows:
        person = next(people, None) if r["proposer"] is None else None
        found.append(
            {
                "by": r["proposer"] or (person.who if person else "a person"),
                "is_person": r["proposer"] is None,
                "turn": r["turn"],
                "text": r["text"],
                "status": r["status"],
                "operation": r["operation"],
                "rationale": r["rationale"],
                "predicted": r["predicted"] or {},
                "at": r["at"],
                "parents": [{"key": k, "smiles": s} for k, s, _, p in made if p == r["id"]],
            }
        )
    return found


def _why(
    connection: Connection,
    row: CampaignRow,
    ladder: Sequence[RungRow],
    stands: Mapping[str, Any],
    told: Mapping[str, Any],
) -> str:
    """Why it stands where it stands, in a sentence."""
    standing, rung, detail = Standing(stands["standing"]), told["rung"], told["detail"]
    if told["hit"]:
        return f"A hit: it passed {rung}, which decides, and meets every objective."
    if standing is Standing.VETOED:
        return f"Taken out {detail}. Its evidence is kept, and it is neither a hit nor a parent."
    if standing is Standing.HELD:
        return f"Held {detail}. It would wait for {rung}; sciagent release lets it go on."
    if standing is Standing.PENDING:
        at_work = any(a["state"] == "running" for r in told["rungs"] if r["rung"] == rung for a in r["attempts"])
        return f"{rung} is at work on it." if at_work else f"A job at {rung} is decided and waits for a worker."
    if standing is Standing.SETTLED:
        return f"Settled: {rung}, which decides, has answered: {told['reason'] or told['verdict']}. {detail}".strip()
    if standing is Standing.DROPPED:
        how = "could not decide" if told["verdict"] in ("inconclusive", "error") else "said no"
        return f"Dropped: {rung} {how}: {told['reason'] or told['verdict']}. {detail}".strip()
    if told["outlook"] is not None:
        text = f"Open: it waits. {told['outlook']['text']}"
        return text if row.state in ("running", "paused") else f"{text} The campaign is not running ({row.state})."
    n = history.ahead(connection, row, int(stands["position"]), stands["score"], int(stands["seq"]))
    better = "with a better score" if stands["score"] is not None else "that came earlier"
    many = "1000 or more wait" if n >= 1000 else "one waits" if n == 1 else f"{n or 'none'} wait"
    text = f"Open: it waits for {rung}; {many} there {better}."
    limit = row.spec.get("budget", {}).get("rungs", {}).get(rung)
    if limit is not None:
        used = queries.jobs_by_rung(connection, row.id).get(ladder[int(stands["position"])].id, 0)
        text += f" {used} of {limit} places of {rung} are used."
    if row.state not in ("running", "paused"):
        text += f" The campaign is not running ({row.state})."
    return text


def campaigns_to_tell(connection: Connection, candidate_id: int, name: str | None) -> list[CampaignRow]:
    """The campaign of that name, or all that have the candidate. Raises UnknownNameError."""
    names = history.campaigns_of(connection, candidate_id)
    if name is None:
        return [campaigns.get(connection, one) for one in names]
    if name not in names:
        campaigns.get(connection, name)
        raise UnknownNameError("campaign of this candidate", name, names)
    return [campaigns.get(connection, name)]


def refused(connection: Connection, text: str, name: str | None) -> list[dict[str, Any]]:
    """Proposals of this very text that did not become a candidate, oldest first. name: of one campaign, or all."""
    p, c, turn, trajectory = t.proposal.c, t.campaign.c, t.turn.c, t.trajectory.c
    kept = [text[:MAX_TEXT], text.strip()[:MAX_TEXT]]
    query = (
        sa.select(c.name, p.text, p.reason, p.detail, p.operation, p.rationale, p.at, trajectory.proposer, turn.number)
        .select_from(
            t.proposal.join(t.campaign, c.id == p.campaign_id)
            .outerjoin(t.turn, turn.id == p.turn_id)
            .outerjoin(t.trajectory, trajectory.id == turn.trajectory_id)
        )
        .where(p.text.in_(kept), p.candidate_id.is_(None), *([] if name is None else [c.name == name]))
        .order_by(p.id)
        .limit(history.MANY)
    )
    return [
        {
            "campaign": one.name,
            "text": one.text,
            "reason": one.reason,
            "detail": one.detail or "",
            "operation": one.operation,
            "rationale": one.rationale,
            "by": one.proposer or "a person",
            "turn": one.number,
            "at": one.at,
        }
        for one in connection.execute(query)
    ]
