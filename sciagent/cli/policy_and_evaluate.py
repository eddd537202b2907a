"""`sciagent policy`: the policies of a ledger, and the roles under which campaigns use them.

`sciagent evaluate RECIPE`: compares policies and other proposers on held-out tasks at equal verification cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sciagent.api.terminal_tables_and_signals import Line, Part, plain_table
from sciagent.cli import options
from sciagent.cli.output_logging_and_given_structures import Exit, open_ledger, put_answer, say
from sciagent.domain.safe_text_and_durations import Paragraph
from sciagent.errors import UsageError

if TYPE_CHECKING:
    from sciagent.training.evaluation.evaluation_command_answers import (
        ChangedRole,
        EvaluatedCampaign,
        EvaluationAnswer,
        ListedPolicy,
        ShownPolicy,
    )
    from sciagent.training.evaluation.evaluation_spec import Interval


def policy(
    name: str | None = typer.Argument(
        None, metavar="[NAME]", help="A policy, with its hash or without, a model of this machine, or a role."
    ),
    role: str | None = typer.Option(
        None, "--as", metavar="ROLE", help="Let this role point to the policy, such as production."
    ),
    evaluation: int | None = typer.Option(
        None, "--evaluation", min=1, help="With --as: number of the evaluation that speaks for it; default: its last."
    ),
    rollback: bool = typer.Option(
        False, "--rollback", help="Let the role NAME point to the version before its last promotion; again: one more."
    ),
    reason: str = typer.Option("", "--reason", help="With --as and --rollback: why; kept with your name and the time."),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """List the policies of the ledger, or show where one comes from, its evaluations, its rewards and its roles.

    Policies are models, under the hash of their weights, and scripts. With --as a role points to the policy: campaigns
    that start from now on use it; those that have started do not.
    """
    if rollback and (role is not None or evaluation is not None):
        raise UsageError("--rollback takes the name of a role only: sciagent policy ROLE --rollback")
    if name is None and (rollback or role is not None):
        raise UsageError(
            "name the policy: sciagent policy NAME --as ROLE, or the role: sciagent policy ROLE --rollback"
        )
    if not rollback and role is None and (reason or evaluation is not None):
        raise UsageError("--reason and --evaluation belong to --as ROLE")
    from sciagent.inputs.environment_variables import user
    from sciagent.training.evaluation import show_and_promote_policies

    opened = open_ledger(ledger)
    if name is None:
        _put_policies(show_and_promote_policies.listed(opened), json)
    elif rollback:
        change = show_and_promote_policies.rollback(opened, name, who=user(), why=reason)
        put_answer(change, json, [Line(_sentence(change))])
    elif role is not None:
        change = show_and_promote_policies.promote(opened, name, role, evaluation=evaluation, who=user(), why=reason)
        put_answer(change, json, [Line(_sentence(change))])
    else:
        answer = show_and_promote_policies.show(opened, name)
        put_answer(answer, json, _policy_parts(answer))


def _put_policies(listed: Sequence[ListedPolicy], json: bool) -> None:
    columns = ("policy", "trained by", "from", "roles", "model here")
    table = plain_table(*columns, left=columns)
    for each in listed:
        table.add_row(each.policy, each.training or "", each.parent or "", ", ".join(each.roles), each.model or "")
    notes = () if listed else ("no policies yet; they come from training and rollouts",)
    put_answer(listed, json, [table], *notes)


def _sentence(change: ChangedRole) -> str:
    """Returns a sentence on the policy that a role points to now, and on the one before."""
    before = f"; before, it was {change.before}" if change.before else ""
    return f"{change.role} is {change.policy}{before}"


def _policy_parts(answer: ShownPolicy) -> Iterator[Part]:
    policy = answer.policy
    roles = f"  roles: {', '.join(policy.roles)}" if policy.roles else ""
    yield Paragraph(f"{policy.policy}  {policy.source}{roles}")
    if answer.parents:
        yield Paragraph(f"trained by {policy.training}, from {', which is from '.join(answer.parents)}")
    if answer.recipe:
        table = plain_table("setting", "value", title="Recipe", left=["setting", "value"])
        for key, value in answer.recipe.items():
            table.add_row(key, str(value))
        yield table
    if answer.evaluations:
        columns = ("evaluation", "arm", "tasks", "hits per verification", "hits per core-second", "scaffolds")
        table = plain_table(*columns, title="Evaluations", left=["arm"])
        for each in answer.evaluations:
            intervals = (each.hits_per_verification, each.hits_per_core_second, each.scaffolds_per_verification)
            table.add_row(str(each.evaluation), each.arm, str(len(each.tasks)), *map(interval_text, intervals))
        yield table
    if answer.rewards:
        table = plain_table("version", "campaign", "episodes", "mean", title="Rewards", left=["campaign"])
        for row in answer.rewards:
            table.add_row(str(row.version), row.campaign, str(row.episodes), f"{row.mean:.4g}")
        yield table
    if answer.changes:
        table = plain_table("at", "role", "by", "evaluation", "why", title="Roles", left=["at", "role", "by", "why"])
        for change in answer.changes:
            verb = "rollback" if change.is_rollback else "promotion"
            number = "" if change.evaluation is None else str(change.evaluation)
            table.add_row(f"{change.at:%Y-%m-%d %H:%M}", change.role, f"{verb}, {change.who}", number, change.why)
        yield table


def interval_text(values: Interval | None) -> str:
    """Returns an interval as text, such as `0.21 [0.15, 0.28]`; empty without one."""
    if values is None:
        return ""
    mean, low, high = values
    return f"{mean:.3g} [{low:.3g}, {high:.3g}]"


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
    from sciagent.api.run_campaign_or_evaluation import evaluate as evaluate_policies

    tell = None if quiet else _show_campaign
    answer = evaluate_policies(file, workers=workers, plot=plot, ledger=open_ledger(ledger, create=True), tell=tell)
    put_answer(answer, json, _evaluation_parts(answer), *_notes(answer))
    if answer.stopped:
        raise typer.Exit(Exit.INTERRUPTED)
    if answer.failed or any(arm.failed for arm in answer.arms.values()):
        raise typer.Exit(Exit.FAILED)


def _show_campaign(campaign: EvaluatedCampaign, n_done: int, n_campaigns: int) -> None:
    hits = f"{campaign.hits} hits of {campaign.verifications}"
    say(f"{n_done}/{n_campaigns} {campaign.campaign}: {hits}, {campaign.core_seconds:.1f} core-seconds")


def _evaluation_parts(answer: EvaluationAnswer) -> Iterator[Part]:
    columns = ("hits", "per verification", "per core-second", "scaffolds", "per verification", "valid")
    table = plain_table("arm", *columns, left=["arm"])
    for name, arm in answer.arms.items():
        intervals = (arm.hits_per_verification, arm.hits_per_core_second, arm.scaffolds_per_verification)
        by_verification, by_second, scaffolds = map(interval_text, intervals)
        valid = "" if arm.valid is None else f"{arm.valid:.1%}"
        table.add_row(name, str(arm.hits), by_verification, by_second, str(arm.scaffolds), scaffolds, valid)
    yield table
    if answer.differences:
        compared = ("per verification", "per core-second", "scaffolds")
        table = plain_table("arm", "minus", *compared, title="Differences", left=["arm", "minus"])
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
        n_campaigns = sum(campaign.arm == arm for campaign in answer.campaigns)
        granted = answer.verifications * n_campaigns
        if figures.verifications < granted:
            yield f"{arm} made {figures.verifications} of {granted} verifications: it ran out of new candidates"
        for why in figures.failed:
            yield f"{arm}: {why}"
    for arm, reasons in answer.failed.items():  # arms without any campaign that ended, and so without figures
        for why in reasons:
            yield f"{arm}: {why}"
    if answer.stopped:
        yield f"{answer.stopped}; go on with the same command"
