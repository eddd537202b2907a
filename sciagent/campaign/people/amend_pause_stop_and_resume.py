"""People amend a campaign, and pause, stop or resume its driver.

An amendment changes budget, goal or workers in the YAML, and writes a directive to the driver. Only keys in
`campaign_spec.AMENDABLE` may change; any other change makes another campaign.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from sciagent.campaign.core.create_and_open import as_begun, create_or_open
from sciagent.campaign.file.campaign_spec import CampaignSpec, parse_spec
from sciagent.campaign.file.objectives_and_budget import BudgetSpec
from sciagent.domain.answers.status_and_comparison import DriverState
from sciagent.domain.cost_and_budget import RESOURCE_UNITS
from sciagent.domain.states_and_needs import AttemptState, CampaignState, Verb
from sciagent.errors import UsageError, did_you_mean
from sciagent.store.campaign_state import campaigns, directives
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import campaign_counts_and_remarks

YAML_WIDTH = 4096  # so that no line of the stored text is broken
_BUDGET_KEYS = [key for key in BudgetSpec.model_fields if key != "rungs"]


def amended_source(
    row: CampaignRow, *, budget: Sequence[str] = (), goal_count: int | None = None, workers: int | None = None
) -> str:
    """Returns the stored YAML with the changes; comments and order are kept. Raises UsageError.

    budget: `key=number`, `rungs.LABEL=number`, `key=number/week` or `/campaign`, or `key=none` to lift a limit.
    """
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = YAML_WIDTH
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
    # `rungs` may be empty now, since a limit was lifted or only looked up
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
    """Returns the mapping that contains the last key of the path; adds the mapping `rungs` if it is needed.

    path: `[key]` or `["rungs", label]`. text: the option as given, for messages. Raises UsageError for an unknown key.
    """
    key = ".".join(path)
    known = [*_BUDGET_KEYS, *(f"rungs.{label}" for label in labels)]
    if key not in known:
        near = did_you_mean(key, known)
        raise UsageError(f'--budget "{text}": unknown key "{key}"{near}; it takes: {", ".join(known)}')
    if len(path) == 2 and budget.get("rungs") is None:
        budget["rungs"] = {}
    return budget["rungs"] if len(path) == 2 else budget


def _amount(given: str, text: str, key: str, old: Any) -> Any:
    """Returns the amount for the YAML: a number or a rate. Raises UsageError.

    given: `NUMBER`, `NUMBER/week` or `NUMBER/campaign`. text: the option as given, for messages. old: the amount in the
    YAML; if it is a mapping with a rate, `given` must name the period.
    """
    before, slash, after = given.partition("/")
    number = before.strip()
    period = after.strip()
    if slash and (key not in RESOURCE_UNITS or period not in ("week", "campaign")):
        takes = "take KEY=NUMBER/week or KEY=NUMBER/campaign, everything else KEY=NUMBER"
        raise UsageError(f'--budget "{text}": "/{period}" is not known here; {", ".join(RESOURCE_UNITS)} {takes}')
    amount = _number(number, text)
    if not isinstance(old, dict):
        return {"amount": amount, "per": period} if period == "week" else amount
    if not period:
        so_far = f"{old.get('amount')} per {old.get('per')}"
        ways = f"{key}={number}/week or {key}={number}/campaign"
        raise UsageError(f'--budget "{text}": {key} is {so_far} so far; write {ways}')
    old.update(amount=amount, per=period)
    return old


def _number(given: str, text: str) -> int | float:
    """Parses a number. text: the option as given, for the message. Raises UsageError."""
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
    create_or_open(ledger, spec, source, who, why, may_undo=True)
    with ledger.begin() as connection:
        row = campaigns.get(connection, spec.campaign)
        directives.write(connection, row.id, Verb.AMEND, who, why, payload={"changes": list(changes)})


def instruct(
    store: Ledger, name: str, verb: Verb, who: str, reason: str, now: bool = False
) -> tuple[DriverState | None, int]:
    """Instructs the driver of a campaign to pause or stop. now: kill running jobs.

    Returns the driver and the number of the campaign's running attempts. Without a driver, the campaign is withdrawn
    from the dispatcher if one would start it, or if the campaign waits for people and is to pause; the answer is then
    (None, 0). Raises UsageError if the campaign has no driver, or is already paused.
    """
    why = directives.checked_reason(reason) if reason else ""
    with store.begin() as connection:
        row = campaigns.get(connection, name)
        driver = campaigns.driver_of(connection, row.id)
        if verb is Verb.PAUSE and row.state is CampaignState.PAUSED:
            raise UsageError(f'campaign "{name}" is paused already; go on with: sciagent resume {name}')
        if driver is None or not driver.alive:
            # `set_hosted` with False withdraws the campaign from the dispatcher; True means that this changed anything
            if verb is Verb.PAUSE and row.state is CampaignState.WAITING:
                directives.write(connection, row.id, verb, who, why)
                campaigns.set_hosted(connection, row.id, False)
                shown = f"paused {directives.author_and_reason(who, why)}"
                campaigns.set_state(connection, row.id, CampaignState.PAUSED, shown)
                campaigns.log_event(connection, row.id, CampaignState.PAUSED, {"who": who, "why": why})
                return None, 0
            if verb is Verb.STOP and campaigns.set_hosted(connection, row.id, False):
                return None, 0
            gone = f"; its driver on {driver.host} is gone" if driver is not None else ""
            raise UsageError(f'campaign "{name}" is not running ({row.state}{gone}): there is nothing to {verb}')
        directives.write(connection, row.id, verb, who, why, payload={"now": True} if now else None)
        a = t.attempt.c
        running = (a.campaign_id == row.id, a.state == AttemptState.RUNNING)
        return driver, campaign_counts_and_remarks.count(connection, t.attempt, *running)


def wake(store: Ledger, name: str, who: str) -> str | None:
    """Instructs a paused driver to continue. Returns its host and process, or None if no driver is paused."""
    with store.begin() as connection:
        row = campaigns.get(connection, name)
        driver = campaigns.driver_of(connection, row.id) if row.state is CampaignState.PAUSED else None
        if driver is None or not driver.alive:
            return None
        directives.write(connection, row.id, Verb.RESUME, who, "")
    return f"{driver.host} (process {driver.pid})"


def hand_in(store: Ledger, name: str, who: str) -> None:
    """Hands a campaign to the dispatcher, which drives it when one is at work."""
    with store.begin() as connection:
        row = campaigns.get(connection, name)
        campaigns.set_hosted(connection, row.id, True)
        campaigns.log_event(connection, row.id, "submitted", {"who": str(who)})


def driver_line(store: Ledger, name: str) -> str:
    """Returns a sentence on the driver that will act on a person's decision, and when."""
    with store.read() as connection:
        row = campaigns.get(connection, name)
        driver = campaigns.driver_of(connection, row.id)
    if driver is not None and driver.alive:
        return f"the driver at {driver.host} (process {driver.pid}) takes it up at its next step"
    return f'campaign "{name}" is not running ({row.state}); it counts from the next: sciagent resume {name}'
