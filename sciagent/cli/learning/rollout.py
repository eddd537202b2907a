"""`sciagent rollout FILE`: groups of episodes that begin alike, for training and for evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sciagent.api.terminal import Paragraph, Part, plain_table
from sciagent.cli import options
from sciagent.cli.shared import Exit, plural, put_answer, say, say_upgraded

if TYPE_CHECKING:
    from sciagent.domain.answers.environments import RolloutAnswer


def rollout(
    file: Path = typer.Argument(help="The campaign, a YAML file."),
    groups: int = typer.Option(1, "--groups", "-g", min=1, max=1000, help="Groups that begin now."),
    siblings: int = typer.Option(8, "--siblings", "-s", min=1, max=1000, help="Episodes in a group."),
    turns: int = typer.Option(6, "--turns", "-t", min=1, max=1000, help="Most answers in an episode."),
    policy: str | None = typer.Option(
        None, help="`scripted`, a model, a role or a policy of the ledger; default: the campaign's own model."
    ),
    purpose: str = typer.Option("rollout", metavar="rollout|evaluation|demonstration", help="What it is for."),
    begins: str = typer.Option(
        "now",
        "--from",
        metavar="now[:N]|seeds[:N]",
        help="What groups see: all candidates, or the seeds; N: N drawn ones.",
    ),
    skills: str = typer.Option(
        "with", metavar="with|without|paired", help="The proposer's skills in the prompt; paired: groups of both kinds."
    ),
    workers: int | None = typer.Option(None, "--workers", "-w", min=1, help="Paid jobs at once."),
    ledger: options.Ledger = None,
    json: options.Json = False,
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress on stderr."),
) -> None:
    """Roll out groups of episodes; the campaign's ladder then decides about all that they proposed.

    The episodes of a group have one opening and see one frozen snapshot of the campaign: none sees another. All of them
    take their turns together. After a stop or a crash the same command continues the open groups.

    Exit codes: 0 ok, 2 the file or the call is wrong, 130 groups are left open.
    """
    from sciagent.api.campaign import Campaign

    campaign = Campaign.from_yaml(file, ledger, enter=False)
    say_upgraded(campaign.ledger.store)
    answer = campaign.rollout(
        groups,
        siblings,
        turns,
        policy=policy,
        purpose=purpose,  # type: ignore[arg-type]  # checked there
        begins=begins,
        skills=skills,  # type: ignore[arg-type]  # checked there
        workers=workers,
        say=None if quiet or json else say,
    )
    notes = [f"{answer.stopped}; go on with the same command"] if answer.stopped else []
    put_answer(answer, json, _parts(answer), *notes)
    if answer.stopped:
        raise typer.Exit(Exit.INTERRUPTED)


def _parts(answer: RolloutAnswer) -> list[Part]:
    table = plain_table("", "group", "state", "episodes", "turns", "proposals", "new", "snapshot", left=["state"])
    for row in answer.groups:
        cells = (row.group, row.state, row.siblings, row.turns, row.proposals, row.new, row.snapshot)
        table.add_row(*map(str, cells))
    took = f" in {answer.seconds:.1f} s" if answer.turns else ""
    about = (
        f"{answer.campaign}: {plural(answer.turns, 'turn')} by {answer.policy}{took}; the campaign is {answer.state}"
    )
    return [table, Paragraph(about)]
