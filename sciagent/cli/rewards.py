"""The commands `sciagent rewards publish` and `show`: versions of the rewards of a campaign's episodes.

`parts` writes the guards of a version of rewards as text: two tables and the alarms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sciagent.api.terminal_tables_and_signals import Part, plain_table
from sciagent.cli import options
from sciagent.cli.output_logging_and_given_structures import open_ledger, plural, put_answer
from sciagent.domain.safe_text_and_durations import Paragraph
from sciagent.errors import UsageError

if TYPE_CHECKING:
    from sciagent.domain.answers.reward_guards import GuardEstimate, PolicyGuards, ShownGuards
    from sciagent.rewards.publish_versions import PublishedRewards
    from sciagent.rewards.show_and_compare_versions import ChangedReward, RewardedEpisode, ShownRewards
    from sciagent.store.database.ledger import Ledger


app = typer.Typer(help="Rewards of the episodes of a campaign.", no_args_is_help=True)
MAX_ROWS = 40  # rows of a table on the terminal; all are in --json


@app.command(epilog="Example: sciagent rewards publish campaigns/rewards/hits.yaml --campaign quickstart_llm")
def publish(
    spec: Path = typer.Argument(metavar="SPEC", help="YAML file that describes the rewards."),
    campaign: str = typer.Option(..., "--campaign", "-c", help="The campaign."),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Compute the rewards of all episodes from the evidence up to now, and keep them as a version.

    If nothing has been written since, the same description gives the version that exists. A new one says whose rewards
    changed.
    """
    from sciagent.rewards.publish_versions import publish as publish_rewards
    from sciagent.rewards.reward_spec import load_rewards

    answer = publish_rewards(open_ledger(ledger), campaign, load_rewards(spec))
    put_answer(answer, json, _version(answer))


@app.command(epilog="Example: sciagent rewards show 3 --json")
def show(
    version: int = typer.Argument(help="Version of rewards, as `publish` prints it.", min=1),
    since: int | None = typer.Option(
        None, "--since", metavar="VERSION", min=1, help="Only the turns whose rewards differ from this earlier version."
    ),
    guards: bool = typer.Option(False, "--guards", help="Show by policy whether its rewards are exploited."),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Show the rewards of a version: each episode with its turns. Or what changed, or by policy whether it exploits.

    The guards are the control, the exploitation index, and the diversity.

    gap: payoff by the terminal rung less the control's score of the same candidates; growth: since the first policy.

    index: what the law promises for candidates that were not verified, less what a lot of them turned out to be worth.

    An ALARM says that growth or index is above 0 by more than chance explains; in 5 % of all tables it is false.
    """
    if since is not None and guards:
        raise UsageError("--since and --guards exclude each other")
    opened = open_ledger(ledger)
    if since is not None:
        _put_difference(opened, since, version, json)
    elif guards:
        from sciagent.rewards.guard_report import show_guards

        guarded = show_guards(opened, version)
        put_answer(guarded, json, parts(guarded))
    else:
        from sciagent.rewards.show_and_compare_versions import show as shown_rewards

        answer = shown_rewards(opened, version)
        put_answer(answer, json, _shown(answer))


def _put_difference(ledger: Ledger, old: int, new: int, json: bool) -> None:
    from sciagent.rewards.show_and_compare_versions import difference

    changed = difference(ledger, old, new)
    put_answer(changed, json, _changed(changed))


def _version(answer: PublishedRewards) -> Iterator[Part]:
    law = "" if answer.law is None else f", by law {answer.law}"
    decided = f"{answer.rewarded} decided, {answer.undecided} undecided"
    yield Paragraph(f"version {answer.version} at watermark {answer.watermark}{law}")
    yield Paragraph(f"{plural(answer.episodes, 'episode')}: {decided}")
    if answer.changed:
        yield from _changed(answer.changed)


def _changed(changed: Sequence[ChangedReward]) -> Iterator[Part]:
    if not changed:
        yield Paragraph("no reward differs")
        return
    table = plain_table("episode", "turn", "was", "now")
    for row in changed[:MAX_ROWS]:
        table.add_row(str(row.episode), str(row.turn), number(row.was), number(row.now))
    yield table
    if len(changed) > MAX_ROWS:
        yield Paragraph(f"and {len(changed) - MAX_ROWS} more; see --json")


def _shown(answer: ShownRewards) -> Iterator[Part]:
    yield Paragraph(f"{answer.campaign}: version {answer.version} at watermark {answer.watermark}, in hits or utility")
    table = plain_table("episode", "sibling", "outcome", "turn", "reward", "return", "advantage", "candidates")
    for episode in answer.episodes[:MAX_ROWS]:
        for row in _turns(episode):
            table.add_row(*row)
    yield table
    if len(answer.episodes) > MAX_ROWS:
        yield Paragraph(f"and {plural(len(answer.episodes) - MAX_ROWS, 'more episode')}; see --json")


def _turns(episode: RewardedEpisode) -> Iterator[tuple[str, ...]]:
    """Yields a row for each turn; the cells of the episode stand in the first row only."""
    sibling = "" if episode.group is None else f"{episode.group}.{episode.sibling}"
    episode_cells = (str(episode.episode), sibling, number(episode.outcome))
    if not episode.turns:
        yield (*episode_cells, "", "", "", "", "")
    for turn in episode.turns:
        numbers = number(turn.reward), number(turn.to_go), number(turn.advantage)
        yield (*episode_cells, str(turn.turn), *numbers, str(len(turn.candidates)))
        episode_cells = ("", "", "")


def number(value: float | None) -> str:
    """Returns a reward with three digits, and a question mark for one that is undecided."""
    return "?" if value is None else f"{value:.3g}"


NONE = "-"  # in a cell without a number


def parts(answer: ShownGuards) -> Iterator[Part]:
    """Yields the guards as text. The columns of a control, and the column of the index, are left out if no policy has
    them."""
    yield Paragraph(f"{answer.campaign}: version {answer.version} at watermark {answer.watermark}, in hits or utility")
    columns = ["policy", "episodes", "reward"]
    if any(policy.control for policy in answer.policies):
        columns += CONTROL
    if any(policy.promise for policy in answer.policies):
        columns.append("index")
    exploits = plain_table(*columns)
    for policy in answer.policies:
        cells = _cells(policy)
        exploits.add_row(*(cells[column] for column in columns))
    yield exploits
    diversity = plain_table("policy", "proposals", f"scaffolds in {answer.sample}", "distance", "repeats", "refused")
    for policy in answer.policies:
        diversity.add_row(policy.label, str(policy.proposals), *_diversity(policy))
    yield diversity
    alarms = [(policy.label, alarm) for policy in answer.policies for alarm in policy.alarms]
    for label, alarm in alarms:
        yield Paragraph(f"ALARM {label}: {alarm}")
    if not alarms:
        yield Paragraph("no alarm")


CONTROL = ("payoff", "control", "gap", "growth")  # columns of the control


def _cells(policy: PolicyGuards) -> dict[str, str]:
    """Returns a row of the first table, by column."""
    control = policy.control
    promise = policy.promise
    return {
        "policy": policy.label,
        "episodes": str(policy.episodes),
        "reward": with_error(policy.reward),
        "payoff": with_error(control.reward if control else None),
        "control": with_error(control.control if control else None),
        "gap": with_error(control.gap if control else None),
        "growth": with_error(control.growth if control else None),
        "index": with_error(promise.index if promise else None),
    }


def _diversity(policy: PolicyGuards) -> Iterator[str]:
    """Yields the cells of the second table from the column of the scaffolds on."""
    diversity = policy.diversity
    yield NONE if diversity.scaffolds is None else f"{diversity.scaffolds:.1f}"
    yield with_error(diversity.distance)
    for share in (diversity.repeats, diversity.refused):
        yield NONE if share is None else f"{share:.0%}"


def with_error(estimate: GuardEstimate | None) -> str:
    """Returns an estimate as `0.61 ± 0.05`; a question mark stands for an error that is not known."""
    if estimate is None:
        return NONE
    # rounded first, so that an error without meaning is shown as 0
    error = "?" if estimate.error is None else f"{round(estimate.error, 4):.2g}"
    return f"{estimate.value:.2g} ± {error}"
