"""The guards of a version of rewards as text: two tables, the alarms, and how to read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sciagent.api.terminal import Paragraph, Part, plain_table

if TYPE_CHECKING:
    from sciagent.domain.answers.guards import GuardEstimate, PolicyGuards, ShownGuards

NONE = "-"  # in a cell without a number


def parts(answer: ShownGuards) -> Iterator[Part]:
    """Yields the parts. Columns of a control or of an index are left out if there is none."""
    yield Paragraph(f"{answer.campaign}: version {answer.version} at watermark {answer.watermark}, in hits or utility")
    columns = ["policy", "episodes", "reward", *(CONTROL if any(p.control for p in answer.policies) else ())]
    columns += ["index"] if any(p.promise for p in answer.policies) else []
    exploits = plain_table("", *columns)
    for policy in answer.policies:
        cells = _exploits(policy)
        exploits.add_row(*(cells[column] for column in columns))
    yield exploits
    diversity = plain_table(
        "", "policy", "proposals", f"scaffolds in {answer.sample}", "distance", "repeats", "refused"
    )
    for policy in answer.policies:
        diversity.add_row(policy.label, str(policy.proposals), *_diversity(policy))
    yield diversity
    alarms = [(policy.label, alarm) for policy in answer.policies for alarm in policy.alarms]
    for label, alarm in alarms:
        yield Paragraph(f"ALARM {label}: {alarm}")
    if not alarms:
        yield Paragraph("no alarm")


CONTROL = ("payoff", "control", "gap", "growth")


def _exploits(policy: PolicyGuards) -> dict[str, str]:
    control, promise = policy.control, policy.promise
    numbers = [control.reward, control.control, control.gap, control.growth] if control else [None] * len(CONTROL)
    return {
        "policy": policy.label,
        "episodes": str(policy.episodes),
        "reward": with_error(policy.reward),
        **dict(zip(CONTROL, map(with_error, numbers), strict=True)),
        "index": with_error(promise.index if promise else None),
    }


def _diversity(policy: PolicyGuards) -> Iterator[str]:
    known = policy.diversity
    yield NONE if known.scaffolds is None else f"{known.scaffolds:.1f}"
    yield with_error(known.distance)
    for share in (known.repeats, known.refused):
        yield NONE if share is None else f"{share:.0%}"


def with_error(estimate: GuardEstimate | None) -> str:
    """Returns an estimate as `0.61 ± 0.05`; a question mark stands for an error that is not known."""
    if estimate is None:
        return NONE
    error = "?" if estimate.error is None else f"{round(estimate.error, 4):.2g}"
    return f"{estimate.value:.2g} ± {error}"
