"""`sciagent evaluate RECIPE`: compares policies and other proposers on held-out tasks at equal verification cost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sciagent.api.terminal import Paragraph, Part, plain_table
from sciagent.cli import options
from sciagent.cli.evaluate import interval_text
from sciagent.cli.shared import Exit, open_ledger, put_answer, say

if TYPE_CHECKING:
    from sciagent.domain.answers.evaluation import EvaluatedCampaign, EvaluationAnswer


def evaluate(
    file: Path = typer.Argument(metavar="RECIPE", help="A YAML file with a part `evaluate`."),
    workers: int = typer.Option(1, "--workers", "-w", min=1, max=256, help="Campaigns at the same time."),
    plot: Path | None = typer.Option(None, "--plot", metavar="FILE", help="Draw hits by verifications: .png or .svg."),
    ledger: options.Ledger = None,
    json: options.Json = False,
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress on stderr."),
) -> None:
    """Compare arms, such as a model before and after training, on held-out tasks at equal verification cost.

    Every arm runs a campaign on every task with every seed; each ends after the same number of verifications by its
    terminal rung. The same command goes on after a stop or a crash, and reads the figures of what has ended.

    Intervals of 95 %: tasks are drawn with replacement, then seeds within each task.

    Exit codes: 0 ok, 1 campaigns failed, 2 the file or the call is wrong, 130 campaigns are left to run.
    """
    from sciagent.api.running import evaluate as evaluated

    answer = evaluated(
        file, workers=workers, plot=plot, ledger=open_ledger(ledger, create=True), tell=None if quiet else _told
    )
    put_answer(answer, json, _evaluation_parts(answer), *_notes(answer))
    if answer.stopped:
        raise typer.Exit(Exit.INTERRUPTED)
    if answer.failed or any(arm.failed for arm in answer.arms.values()):
        raise typer.Exit(Exit.FAILED)


def _told(campaign: EvaluatedCampaign, done: int, of: int) -> None:
    hits = f"{campaign.hits} hits of {campaign.verifications}"
    say(f"{done}/{of} {campaign.campaign}: {hits}, {campaign.core_seconds:.1f} core-seconds")


def _evaluation_parts(answer: EvaluationAnswer) -> Iterator[Part]:
    columns = ("hits", "per verification", "per core-second", "scaffolds", "per verification", "valid")
    table = plain_table("", "arm", *columns, left=["arm"])
    for name, arm in answer.arms.items():
        intervals = (arm.hits_per_verification, arm.hits_per_core_second, arm.scaffolds_per_verification)
        by_verification, by_second, scaffolds = map(interval_text, intervals)
        valid = "" if arm.valid is None else f"{arm.valid:.1%}"
        table.add_row(name, str(arm.hits), by_verification, by_second, str(arm.scaffolds), scaffolds, valid)
    yield table
    if answer.differences:
        table = plain_table(
            "Differences", "arm", "minus", *(columns[1], columns[2], "scaffolds"), left=["arm", "minus"]
        )
        for each in answer.differences:
            intervals = (each.hits_per_verification, each.hits_per_core_second, each.scaffolds_per_verification)
            table.add_row(each.arm, each.minus, *map(interval_text, intervals))
        yield table
    n = len(answer.campaigns)
    yield Paragraph(
        f"{n} campaigns on {len(answer.tasks)} tasks with {len(answer.seeds)} seeds, {answer.verifications} "
        "verifications each; in brackets the interval of 95 %"
    )


def _notes(answer: EvaluationAnswer) -> Iterator[str]:
    for arm, figures in answer.arms.items():
        if figures.verifications < (granted := answer.verifications * _campaigns(answer, arm)):
            yield f"{arm} made {figures.verifications} of {granted} verifications: it ran out of new candidates"
        yield from (f"{arm}: {why}" for why in figures.failed)
    yield from (f"{arm}: {why}" for arm, reasons in answer.failed.items() for why in reasons)
    if answer.stopped:
        yield f"{answer.stopped}; go on with the same command"


def _campaigns(answer: EvaluationAnswer, arm: str) -> int:
    return sum(each.arm == arm for each in answer.campaigns)
