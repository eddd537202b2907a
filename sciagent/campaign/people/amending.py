"""Amendments: the campaign's own YAML with another budget, goal or number of workers; the diff, the log, the word to
the driver. What may change is `spec_diff.AMENDABLE`; anything else is another campaign."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from sciagent.campaign.core.build import create_or_open
from sciagent.campaign.spec.campaign_spec import CampaignSpec
from sciagent.campaign.spec.load import parse_spec
from sciagent.domain.cost import RESOURCE_UNITS
from sciagent.domain.directives import Verb
from sciagent.errors import UsageError, did_you_mean
from sciagent.store.campaign_state import campaigns, directives
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.ledger import Ledger

_TAKES = ("core_seconds", "gpu_seconds", "llm_tokens", "money", "lab_slots", "licences", "wall_minutes", "proposals")


def amended_source(
    row: CampaignRow, *, budget: Sequence[str] = (), goal_count: int | None = None, workers: int | None = None
) -> str:
    """The stored YAML with these values in it; comments and order stay. budget: `key=number`, `rungs.LABEL=number`,
    `key=number/week` or `/campaign`, or `key=none` to lift a limit. Raises UsageError."""
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 4096
    data = yaml.load(row.source)
    labels = [one["rung"] for one in row.spec["ladder"]]
    for text in budget:
        key, _, given = text.partition("=")
        path = key.strip().removeprefix("budget.").split(".")
        where = _place(data["budget"], path, labels, text)
        if given.strip().lower() in ("none", "null", ""):
            if not given.strip():
                raise UsageError(f'--budget "{text}": write KEY=NUMBER, or KEY=none to lift the limit')
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
    """The mapping that the last part of the path stands in."""
    if len(path) == 1 and path[0] in _TAKES:
        return budget
    if len(path) == 2 and path[0] == "rungs":
        if path[1] not in labels:
            raise UsageError(
                f'--budget "{text}": no rung "{path[1]}"{did_you_mean(path[1], labels)}; the ladder has: '
                f"{', '.join(labels)}"
            )
        if budget.get("rungs") is None:
            budget["rungs"] = {}
        return budget["rungs"]
    known = [*_TAKES, *(f"rungs.{label}" for label in labels)]
    raise UsageError(
        f'--budget "{text}": unknown key "{".".join(path)}"{did_you_mean(".".join(path), known)}; it takes: '
        f"{', '.join(known)}"
    )


def _amount(given: str, text: str, key: str, old: Any) -> Any:
    """A number, or a rate as YAML has it. What was a rate stays one only if that is said."""
    number, slash, per = (part.strip() for part in given.partition("/"))
    if slash and (key not in RESOURCE_UNITS or per not in ("week", "campaign")):
        raise UsageError(
            f'--budget "{text}": "/{per}" is not known here; {", ".join(RESOURCE_UNITS)} take KEY=NUMBER/week or '
            "KEY=NUMBER/campaign, everything else KEY=NUMBER"
        )
    amount = _number(number, text)
    if not isinstance(old, dict):
        return {"amount": amount, "per": per} if per == "week" else amount
    if not per:
        raise UsageError(
            f'--budget "{text}": {key} is {old.get("amount")} per {old.get("per")} so far; write {key}={number}/week '
            f"or {key}={number}/campaign"
        )
    old.update(amount=amount, per=per)
    return old


def _number(given: str, text: str) -> int | float:
    try:
        return int(given)
    except ValueError:
        pass
    try:
        return float(given)
    except ValueError:
        raise UsageError(f'--budget "{text}": "{given}" is no number') from None


def differences(row: CampaignRow, source: str, name: str, base: Path) -> tuple[CampaignSpec, list[str]]:
    """The amended campaign, and `path: old -> new` for everything that changes. Raises SpecError, and UsageError where
    more changes than may."""
    spec = parse_spec(source, name, base)
    if spec.campaign != row.name:
        raise UsageError(f'{name} is the campaign "{spec.campaign}", not "{row.name}"')
    if spec.identity_hash != row.identity_hash:
        lines = "\n  ".join(spec.diff(row.spec, identity_only=True)) or "the versions of its verifiers"
        raise UsageError(
            f'this would be another campaign than "{row.name}":\n  {lines}\n'
            "Budget, goal.count, limits, resources, workers and description may be amended; for anything else start a "
            "campaign of a new name (evidence is reused)."
        )
    return spec, spec.diff(row.spec)


def amend(ledger: Ledger, spec: CampaignSpec, source: str, who: str, why: str, changes: Sequence[str]) -> None:
    """Write it, with the log of what changed; the running driver takes it up at its next step."""
    create_or_open(ledger, spec, source, who, why)
    with ledger.begin() as connection:
        row = campaigns.get(connection, spec.campaign)
        payload: Mapping[str, Any] = {"changes": list(changes)}
        directives.write(connection, row.id, Verb.AMEND, who, why, payload=payload)
