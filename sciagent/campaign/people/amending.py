"""Amends a campaign: changes budget, goal or workers in its YAML, and writes a directive to the driver. Only keys in
`campaign_spec.AMENDABLE` may change; any other change makes another campaign."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from sciagent.campaign.core.build import create_or_open
from sciagent.campaign.core.opening import as_begun
from sciagent.campaign.file.campaign_spec import CampaignSpec
from sciagent.campaign.file.goals import BudgetSpec
from sciagent.campaign.spec.load import parse_spec
from sciagent.domain.cost import RESOURCE_UNITS
from sciagent.domain.directives import Verb
from sciagent.errors import UsageError, did_you_mean
from sciagent.store.campaign_state import campaigns, directives
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.ledger import Ledger

_TAKES = [key for key in BudgetSpec.model_fields if key != "rungs"]


def amended_source(
    row: CampaignRow, *, budget: Sequence[str] = (), goal_count: int | None = None, workers: int | None = None
) -> str:
    """Returns the stored YAML with the changes; comments and order are kept. Raises UsageError.

    budget: `key=number`, `rungs.LABEL=number`, `key=number/week` or `/campaign`, or `key=none` to lift a limit.
    """
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 4096
    data = yaml.load(row.source)
    labels = [rung["rung"] for rung in row.spec["ladder"]]
    for text in budget:
        key, _, given = text.partition("=")
        path = key.strip().removeprefix("budget.").split(".")
        where = _place(data["budget"], path, labels, text)
        if not given.strip():
            raise UsageError(f'--budget "{text}": write KEY=NUMBER, or KEY=none to lift the limit')
        if given.strip().lower() in ("none", "null"):
            where.pop(path[-1], None)
        else:
            where[path[-1]] = _amount(given.strip(), text, path[-1], where.get(path[-1]))
    if not data["budget"].get("rungs", True):
        data["budget"].pop("rungs")
    if goal_count is not None:
        data["goal"]["count"] = goal_count
    if workers is not None:
        data["workers"] = workers
    out = io.StringIO()
    yaml.dump(data, out)
    return out.getvalue()


def _place(budget: Any, path: Sequence[str], labels: Sequence[str], text: str) -> Any:
    """Returns the mapping that contains the last key of the path."""
    key, known = ".".join(path), [*_TAKES, *(f"rungs.{label}" for label in labels)]
    if key not in known:
        near = did_you_mean(key, known)
        raise UsageError(f'--budget "{text}": unknown key "{key}"{near}; it takes: {", ".join(known)}')
    if len(path) == 2 and budget.get("rungs") is None:
        budget["rungs"] = {}
    return budget["rungs"] if len(path) == 2 else budget


def _amount(given: str, text: str, key: str, old: Any) -> Any:
    """Returns the amount for the YAML: a number or a rate. A text that changes a rate must have `/week` or
    `/campaign`."""
    number, slash, per = (part.strip() for part in given.partition("/"))
    if slash and (key not in RESOURCE_UNITS or per not in ("week", "campaign")):
        takes = "take KEY=NUMBER/week or KEY=NUMBER/campaign, everything else KEY=NUMBER"
        raise UsageError(f'--budget "{text}": "/{per}" is not known here; {", ".join(RESOURCE_UNITS)} {takes}')
    amount = _number(number, text)
    if not isinstance(old, dict):
        return {"amount": amount, "per": per} if per == "week" else amount
    if not per:
        so_far, ways = f"{old.get('amount')} per {old.get('per')}", f"{key}={number}/week or {key}={number}/campaign"
        raise UsageError(f'--budget "{text}": {key} is {so_far} so far; write {ways}')
    old.update(amount=amount, per=per)
    return old


def _number(given: str, text: str) -> int | float:
    try:
        return int(given) if given.isdecimal() else float(given)
    except ValueError:
        raise UsageError(f'--budget "{text}": "{given}" is no number') from None


def differences(row: CampaignRow, source: str, name: str, base: Path) -> tuple[CampaignSpec, list[str]]:
    """Returns the amended spec and one line `path: old -> new` per change. Raises SpecError, or UsageError for a change
    that is not allowed."""
    spec = parse_spec(source, name, base)
    if spec.campaign != row.name:
        raise UsageError(f'{name} is the campaign "{spec.campaign}", not "{row.name}"')
    spec = as_begun(spec, source, row)
    if spec.identity_hash != row.identity_hash:
        raise UsageError(
            f'this would be another campaign than "{row.name}":\n  {spec.identity_diff(row.spec)}\n'
            "Budget, goal.count, limits, resources, workers and description may be amended; for anything else start a "
            "campaign of a new name (evidence is reused)."
        )
    return spec, spec.diff(row.spec)


def amend(ledger: Ledger, spec: CampaignSpec, source: str, who: str, why: str, changes: Sequence[str]) -> None:
    """Stores the amended campaign and writes a directive; a running driver adopts it at its next step."""
    create_or_open(ledger, spec, source, who, why)
    with ledger.begin() as connection:
        row = campaigns.get(connection, spec.campaign)
        directives.write(connection, row.id, Verb.AMEND, who, why, payload={"changes": list(changes)})
