"""What a model is told before its first turn: the goal, the ladder, what is left, and what this campaign has learned so
far, in a bounded text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.campaign.core.judge import show_window
from sciagent.campaign.proposing import predictions
from sciagent.chemistry.scaffold import features
from sciagent.domain.cost import RESOURCE_UNITS
from sciagent.domain.objectives import Objective
from sciagent.domain.properties import properties
from sciagent.domain.quantities import show
from sciagent.domain.tiers import Tier
from sciagent.store.campaign_state import campaigns, standings
from sciagent.store.database import tables as t
from sciagent.store.results import candidates, evidence, scaffolds
from sciagent.store.views import queries

SHOWN = 8  # of the best: as many as an answer held to a schema may name
MANY = 4000  # of the latest proposals and candidates that are counted
CLASSES = 8
MAX_TEXT = 4000


def goal(built: Built) -> str:
    """What is wanted, and what it is measured by, in a few lines."""
    spec = built.spec
    lines = [spec.description.strip()] if spec.description else []
    lines += [f"Wanted: {_wanted(one)}." for one in built.objectives]
    for rung in built.rungs:
        gate = ", ".join(show_window(name, window) for name, window in rung.rules.gate.items())
        free = "at once" if rung.verifier.tier is Tier.FAST else "costs the budget"
        decides = ", decides" if rung.rules.is_terminal else ""
        lines.append(
            f"Rung {rung.spec.rung} ({rung.verifier.name}): {free}{decides}" + (f"; gate {gate}" if gate else "")
        )
    return "\n".join(lines)


def _wanted(one: Objective) -> str:
    if one.accept is not None:
        return show_window(one.property, one.accept)
    unit = properties()[one.property].unit
    return f"{one.property} as {one.direction} as can be" + ("" if unit == "1" else f", in {unit}")


def left_text(left: Mapping[str, float]) -> str:
    """What may still be spent, by resource or rung."""
    parts = []
    for name, amount in left.items():
        unit = RESOURCE_UNITS.get(name, "")
        parts.append(f"{name}: {amount:.4g}" + (f" {unit}" if unit not in ("", "1") else ""))
    return "; ".join(parts) or "no limit"


def digest(connection: Connection, built: Built) -> str:
    """What was tried, what worked and what did not: the best so far with what was measured, what became of each class
    of structures, how many proposals were refused or dropped and why, and the latest notes."""
    campaign_id = built.row.id
    lines = best_lines(connection, built, SHOWN)
    if (hits := queries.hits(connection, campaign_id)) > 0:
        lines.append(f"Hits so far: {hits}.")
    if classes := _classes(connection, campaign_id):
        lines.append("Tried so far, by ring skeleton: " + "; ".join(classes) + ".")
    if reasons := _reasons(connection, campaign_id):
        lines.append("Turned down so far: " + ", ".join(f"{n} x {reason}" for reason, n in reasons) + ".")
    for one in predictions.scores(connection, built):
        unit = properties()[one.property].unit
        lines.append(
            f"Predictions of {one.property} against {one.rung}: {one.n}, mean score (CRPS) {one.crps:.2g} {unit}, "
            f"{100 * one.inside:.0f} % within the error given, {one.bias:+.2g} {unit} too high on average."
        )
    lines += [f"Note of an earlier episode: {text}" for text in notes(connection, campaign_id)]
    return "\n".join(lines)[:MAX_TEXT]


def best_lines(connection: Connection, built: Built, n: int) -> list[str]:
    """The n best by score, as `#1 SMILES: score; what was measured`."""
    found = standings.top(connection, built.row.id, n)
    said = told(connection, built, [row[0] for row in found])
    return [
        f"#{place} {text}: score {score:.2f}" + (f"; {'; '.join(said[id_])}" if said[id_] else "")
        for place, (id_, _, text, score, *_) in enumerate(found, 1)
    ]


def told(connection: Connection, built: Built, candidate_ids: Sequence[int]) -> dict[int, list[str]]:
    """What paid rungs, and the one that decides, have said on what is wanted, cheapest first; by candidate."""
    lines: dict[int, list[str]] = {id_: [] for id_ in candidate_ids}
    wanted = {one.property for one in built.objectives}
    for rung in built.rungs:
        v = rung.verifier
        if rung.is_fast and not rung.rules.is_terminal:
            continue
        found = evidence.find_reusable(connection, candidate_ids, v.name, v.version, v.settings_hash)
        for id_, one in found.items():
            values = ", ".join(
                f"{m.property} {show(m.quantity.value, None, m.quantity.unit)}"
                for m in one.measured
                if m.property in wanted
            )
            lines[id_].append(f"{rung.spec.rung}: {values or one.outcome}")
    return lines


def _classes(connection: Connection, campaign_id: int) -> list[str]:
    """The most frequent of the latest candidates' Murcko scaffolds, and what became of those that have them."""
    said = []
    for one in scaffolds.tried(connection, campaign_id, MANY, CLASSES):
        skeleton = features(one.text).scaffold[:100] or "no ring"
        hits = f", {one.hits} hit{'s' * (one.hits > 1)}" if one.hits else ""
        dropped = f", {one.dropped} turned down" if one.dropped else ""
        best = "" if one.best is None else f", best score {one.best:.2f}"
        said.append(f"{skeleton}: {one.n}{hits}{dropped}{best}")
    return said


def _reasons(connection: Connection, campaign_id: int) -> list[tuple[str, int]]:
    """The commonest reasons of the latest proposals that were refused, and of candidates that were dropped."""
    p, cc, counts = t.proposal.c, t.campaign_candidate.c, dict[str, int]()
    latest = sa.select(p.reason).where(p.campaign_id == campaign_id).order_by(p.id.desc()).limit(MANY).subquery()
    dropped = (
        sa.select(cc.reason)
        .where(cc.campaign_id == campaign_id, cc.standing == "dropped")
        .order_by(cc.position, cc.seq)
        .limit(MANY)
        .subquery()
    )
    for one in (latest, dropped):
        query = sa.select(one.c.reason, sa.func.count()).where(one.c.reason.is_not(None)).group_by(one.c.reason)
        for reason, n in connection.execute(query).all():
            counts[reason] = counts.get(reason, 0) + int(n)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:4]


def notes(connection: Connection, campaign_id: int, n: int = 3) -> list[str]:
    """The latest that models left for later episodes, oldest first."""
    e = t.event.c
    query = sa.select(e.payload).where(e.campaign_id == campaign_id, e.kind == "note").order_by(e.id.desc()).limit(n)
    return [str(payload.get("text", ""))[:500] for payload in connection.execute(query).scalars()][::-1]


def write_note(connection: Connection, campaign_id: int, trajectory: int, text: str) -> None:
    campaigns.log_event(connection, campaign_id, "note", {"text": text[:500], "trajectory": trajectory})


def candidate_id(connection: Connection, built: Built, key: str) -> int | None:
    """Of a candidate of the campaign; None for a key that it does not have."""
    ids = candidates.ids_of(connection, [key])
    there = standings.members(connection, built.row.id, list(ids.values()))
    return next((id_ for id_ in ids.values() if id_ in there), None)


def left(connection: Connection, built: Built) -> dict[str, float]:
    """Of the budget what is neither spent nor reserved, by resource, and by rung in runs."""
    from sciagent.campaign.core.budget_tracker import Purse

    purse = Purse(built, connection)
    found = {name: limit - purse.used().get(name, 0.0) for name, limit in purse.limits().items()}
    labels = {f"rung {rung.rules.position}": f"runs of {rung.spec.rung}" for rung in built.rungs}
    return {labels.get(name, name): max(amount, 0.0) for name, amount in found.items()}
