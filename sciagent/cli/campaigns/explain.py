"""`sciagent explain CANDIDATE`: everything the ledger knows of one candidate, in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from sciagent.cli.people.steer import CampaignOption, CandidateArgument
from sciagent.cli.shared.common import JsonOption, LedgerOption, open_ledger, put_json

MAX_VALUES = 40
RUNG = -1  # depth of the heading of a rung


def register(app: typer.Typer) -> None:
    app.command("explain", epilog="Example: sciagent explain 'O=Cc1ccccc1' --campaign quickstart")(explain)


def explain(
    candidate: CandidateArgument,
    campaign: CampaignOption = None,
    full: Annotated[bool, typer.Option("--full", help="Settings, engine versions, keys and files too.")] = False,
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> None:
    """What a candidate is, who proposed it, what each rung said, why it stands where it stands, and what it cost.

    For one that waits in a priced campaign: its value, its chance of a hit, its index against the price, and what
    would be bought next. A text that was proposed and refused is found, too, with the reason.
    """
    from sciagent.campaign.people import explaining
    from sciagent.campaign.people.resolving import resolve
    from sciagent.errors import UsageError
    from sciagent.store.campaign_state import campaigns

    opened = open_ledger(ledger)
    with opened.read() as connection:
        row = campaigns.get(connection, campaign) if campaign is not None else None
        try:
            named = resolve(connection, row, candidate)
        except UsageError:
            if not (refused := explaining.refused(connection, candidate, campaign)):
                raise
            found = {"key": None, "text": candidate, "refused": refused}
        else:
            rows = explaining.campaigns_to_tell(connection, named.id, campaign)
            found = explaining.explain(connection, named.id, rows, opened)
    if json:
        put_json(found)
        return
    from rich.console import Console

    console = Console()
    for text, depth in _lines(found, full) if found["key"] else _refused(found):
        _print(console, text, depth)


def _refused(found: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    yield found["text"], 0
    yield "It was proposed and refused: it did not become a candidate.", 1
    for one in found["refused"]:
        by = "a person" if one["turn"] is None else f"the proposer {one['by']} in turn {one['turn']}"
        why = ": ".join(x for x in (one["reason"], one["detail"]) if x) or "no reason was kept"
        yield f"Campaign {one['campaign']}: proposed by {by}, {_when(one['at'])}", 1
        yield f"refused: {why}", 2
        if one["rationale"]:
            yield f"“{one['rationale']}”", 2


def _print(console: Any, text: str, depth: int) -> None:
    """A paragraph, wrapped to the terminal under its own indent; headings are bold."""
    from rich.padding import Padding
    from rich.text import Text

    if not text:
        console.print()
        return
    style = "bold" if depth in (0, RUNG) else ""
    indent = 2 if depth == RUNG else 2 * depth
    console.print(Padding(Text(text, style=style, overflow="fold"), (0, 0, 0, indent), expand=False), highlight=False)


def _lines(found: Mapping[str, Any], full: bool) -> Iterator[tuple[str, int]]:
    """(text, depth) of every paragraph."""
    yield found["smiles"], 0
    charge = f", charge {found['charge']:+d}" if found["charge"] else ""
    spin = f", multiplicity {found['multiplicity']}" if found["multiplicity"] != 1 else ""
    yield f"{found['formula']}{charge}{spin}, {found['atoms']} atoms", 1
    yield f"key {found['key'] if full else found['key'][:12]}, InChIKey {found['inchikey'] or 'none'}", 1
    if found["also_given_as"]:
        yield "also given as " + ", ".join(found["also_given_as"][:5]), 1
    for one in found["campaigns"]:
        yield "", 0
        yield f"In campaign {one['campaign']}: {_standing(one)}", 0
        yield one["why"], 1
        yield from _numbers(one)
        yield from _origin(one)
        waived, labels = _waivers(one), [rung["rung"] for rung in one["rungs"]]
        for rung in one["rungs"]:
            yield from _rung(rung, full, waived.get(rung["rung"]), labels)
        for said in one["people"]:
            to = f" to {said['rung']}" if said["rung"] else ""
            yield f"{_when(said['at'])}  {said['who']}: {said['verb']}{to}: {said['why']}", 1
    if not found["campaigns"]:
        yield "It is in no campaign.", 1
    if found["imported"]:
        yield "", 0
        yield "Values brought from files", 0
        for value in found["imported"]:
            yield (
                f"{_value(value)}, from {value['source'].split(' sha256')[0]} by {value['who']}, {_day(value['at'])}",
                1,
            )
    others = [e for e in found["other_evidence"] if e["is_current"]]
    old = len(found["other_evidence"]) - len(others)
    if others or old:
        yield "", 0
        yield "Known besides, under other settings or from other work", 0
        for one in others:
            where = f" (campaign {one['campaign']})" if one["campaign"] else ""
            yield f"{one['verifier']} {one['version']}{where}, {_day(one['at'])}: {_outcome(one)}", 1
            yield from _values(one["values"])
        if old:
            yield f"and {old} superseded revision{'' if old == 1 else 's'}", 1
    if (n := found["children"]["n"]) > 0:
        yield "", 0
        shown = ", ".join(c["smiles"] for c in found["children"]["first"])
        yield f"Parent of {n} candidate{'' if n == 1 else 's'}", 0
        yield shown + (", …" if n > 5 else ""), 1


def _standing(one: Mapping[str, Any]) -> str:
    return ("a hit" if one["hit"] else str(one["standing"])) + (", a seed" if one["in_seeds"] else "")


def _numbers(one: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    parts = []
    if one["utility"] is not None:
        parts.append(f"utility {one['utility']:.3f} (1: every objective fully met)")
    elif one["score"] is not None:
        what = "how near the gates and objectives" if one["scheduler"] == "priced" else "orders what waits"
        parts.append(f"score {one['score']:.3f} ({what}; no probability)")
    spent = f"{one['core_seconds']:.3g} core-seconds" if one["core_seconds"] else "nothing"
    text = "; ".join([*parts, f"it cost this campaign {spent}"])
    yield text[0].upper() + text[1:], 1


def _origin(one: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for i, p in enumerate(one["proposed"]):
        verb = "Proposed" if i == 0 else "Again"
        by = p["by"] if p["is_person"] else f"the proposer {p['by']} in turn {p['turn']}"
        how = _how(p)
        yield f"{verb} by {by}, {_when(p['at'])}{how}" + (f", as {p['text']}" if p["is_person"] else ""), 1
        if p["parents"]:
            yield "from " + " and ".join(f"{x['smiles']} ({x['key'][:8]})" for x in p["parents"]), 2
        if p["rationale"]:
            yield f"“{p['rationale']}”", 2


def _how(p: Mapping[str, Any]) -> str:
    if p["operation"] == "seed":
        return ", as a seed"
    return f", by {p['operation']}" if p["operation"] and p["operation"] not in ("person", p["by"]) else ""


def _waivers(one: Mapping[str, Any]) -> dict[str, str]:
    """{rung: who waived what it said}: everything below the rung that a promotion went to, until a veto."""
    order = [r["rung"] for r in one["rungs"]]
    found: dict[str, str] = {}
    for said in one["people"]:
        if said["verb"] == "veto":
            found = {}
        elif said["verb"] == "promote" and said["rung"] in order:
            found |= dict.fromkeys(order[: order.index(said["rung"])], said["who"])
    return found


def _rung(
    rung: Mapping[str, Any], full: bool, waived_by: str | None, labels: Sequence[str]
) -> Iterator[tuple[str, int]]:
    evidence = rung["evidence"]
    decides = ", decides" if rung["is_terminal"] else ""
    said = _verdict(rung)
    yield f"{rung['rung']} ({rung['verifier']} {rung['version']}{decides}): {said}", RUNG
    missed = bool(rung["detail"]) and rung["verdict"] != "pass"
    if missed:
        yield rung["detail"], 2
    if waived_by and rung["verdict"] not in ("pass", None):
        yield f"waived: {waived_by} promoted it past this rung", 2
    wanted = [*(f"gate {g}" for g in rung["gate"]), *(f"objective {o}" for o in rung["objectives"])]
    if wanted and (full or (evidence and not missed)):
        yield "; ".join(wanted), 2
    yield from _values(evidence["values"] if evidence else ())
    if rung["reused"] and evidence:
        where = f"campaign {evidence['campaign']}" if evidence["campaign"] else "`sciagent verify`"
        yield f"known before from {where} ({_day(evidence['at'])}), under the same settings: cost nothing", 2
    elif evidence:
        yield f"computed {_when(evidence['at'])}, {rung['core_seconds']:.3g} core-seconds", 2
    for decision in rung["decisions"]:
        yield f"{_decision(decision, full)}, {_when(decision['at'])}", 2
        if by := _by_law(decision, full, labels):
            yield by, 3
    for attempt in rung["attempts"] if full or len(rung["attempts"]) > 1 or not evidence else ():
        ended = attempt["outcome"] or attempt["state"]
        why = f" ({attempt['reason']})" if attempt["reason"] else ""
        yield f"tried {_when(attempt['started_at'])} on {attempt['host']}: {ended}{why}", 2
    if evidence and full:
        yield "with " + ", ".join(f"{k} {v}" for k, v in sorted(evidence["versions"].items())), 2
        yield "settings " + ", ".join(f"{k}={v}" for k, v in rung["settings"].items()), 2
        yield f"evidence {evidence['key']}, watermark {evidence['watermark']}, revision {evidence['revision']}", 2
    for file in evidence["files"] if evidence else ():
        gone = file["removed"]
        state = f", removed by {gone['who']} {_day(gone['at'])}: {gone['why']}" if gone else ""
        if full or gone:
            yield f"file {file['name']}, {file['size']} bytes, {file['sha256'][:12]}{state}", 2


def _values(values: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, int]]:
    """Under one heading where all are of one level."""
    levels = {v["level"] for v in values}
    if len(levels) == 1 and len(values) > 1:
        yield f"at {levels.pop()}:", 2
        yield from ((_value(v, level=False), 3) for v in values[:MAX_VALUES])
    else:
        yield from ((_value(v), 2) for v in values[:MAX_VALUES])
    if len(values) > MAX_VALUES:
        yield f"and {len(values) - MAX_VALUES} more; see --json", 2


def _verdict(rung: Mapping[str, Any]) -> str:
    if rung["verdict"] is None:
        waits = {"queued": "decided, waits for a worker", "running": "is at work", "cancelled": "cancelled, not run"}
        return waits.get(rung["job"] or "", "not run")
    words = {
        "pass": "pass",
        "fail": "fail",
        "inconclusive": "could not decide",
        "error": "went wrong",
        "not_applicable": "does not take it",
    }
    return words[rung["verdict"]] + (f" ({rung['reason']})" if rung["reason"] else "")


def _outcome(one: Mapping[str, Any]) -> str:
    return str(one["outcome"]) + (f" ({one['reason']})" if one["reason"] else "")


def _decision(one: Mapping[str, Any], full: bool) -> str:
    person = one["chooser"].removeprefix("person:") if one["chooser"].startswith("person:") else None
    why = (one["why"] or "").removeprefix(one["chooser"]).removeprefix(": ")
    why = f": {why}" if why else ""
    if one["action"] == "promote" and person:
        return f"promoted by {person}{why}"
    verb = {"run": "chosen", "reuse": "reused"}.get(one["action"], one["action"])
    by = "" if one["chooser"] == "reuse" else f" by {person or one['chooser']}"
    more = f" (index {one['index']:.3g}, propensity {one['propensity']:g})" if full and one["index"] is not None else ""
    return f"{verb}{by}{more}{why}"


def _by_law(one: Mapping[str, Any], full: bool, labels: Sequence[str]) -> str:
    """The law and the price that a purchase was chosen by."""
    law = one["law_version"]
    parts = [] if law is None else [f"by law {law if full else law[:8]}"]
    if one["price"]:
        prices = (f"{amount:.3g} for one {_resource(name, labels)}" for name, amount in one["price"].items())
        parts.append(f"price {', '.join(prices)}, in hits or utility")
    return ", ".join(parts)


def _resource(name: str, labels: Sequence[str]) -> str:
    """In the singular; `rung 3` is one run of the rung at position 3."""
    if name.startswith("rung "):
        return labels[int(name.split()[1])]
    words = {"core_seconds": "core-second", "wall_seconds": "core-second (by the clock)", "gpu_seconds": "GPU-second"}
    return words.get(name) or name.removesuffix("s").replace("_", " ")


def _value(v: Mapping[str, Any], level: bool = True) -> str:
    from sciagent.domain.quantities import show

    sign = {"below": "< ", "above": "> "}.get(v["censoring"], "")
    spread = "" if v["uncertainty"] is not None else ", uncertainty unknown"
    at = f"  [{v['level']}]" if level else ""
    return f"{v['property']} = {sign}{show(v['value'], v['uncertainty'], v['unit'])}{at}{spread}"


def _when(at: datetime | str | None) -> str:
    return at.strftime("%Y-%m-%d %H:%M UTC") if isinstance(at, datetime) else str(at or "at an unknown time")


def _day(at: datetime | str | None) -> str:
    return at.strftime("%Y-%m-%d") if isinstance(at, datetime) else str(at or "")
