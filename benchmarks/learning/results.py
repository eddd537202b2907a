"""Merges what several runs of `sciagent evaluate --json` found into one table and one chart.

    python -m benchmarks.learning.results RUN.json... --out benchmarks/learning/results

The figures are made anew from the campaigns of all runs, by the functions of `sciagent evaluate`. Every run must have
the same tasks and number of verifications. A campaign that several runs have must be the same in all of them. An arm
that lacks tasks or seeds is compared on those that it has.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sciagent.cli.learning.policy import interval_text
from sciagent.domain.answers.evaluation import ArmDifference, EvaluatedArm, EvaluatedCampaign, EvaluationAnswer
from sciagent.errors import UsageError
from sciagent.training.evaluation.spec import ArmSpec, EvaluateSpec
from sciagent.training.evaluation.summary import compared

AGAINST = ("sft-a", "evolve", "table")
SCORES = {
    "hits_per_verification": "hits for each verification",
    "hits_per_core_second": "hits for each core-second",
    "scaffolds_per_verification": "scaffolds for each verification",
}


def read(path: Path) -> EvaluationAnswer:
    """Returns the answer of a run, from the output of `sciagent evaluate --json`."""
    text = path.read_text(encoding="utf-8")
    return EvaluationAnswer.model_validate_json(text[text.index("{") :])


def merged(answers: Sequence[EvaluationAnswer]) -> EvaluationAnswer:
    """Returns one answer with the arms of all. Raises UsageError if the answers cannot be compared."""
    tasks, verifications = answers[0].tasks, answers[0].verifications
    if any(set(each.tasks) != set(tasks) or each.verifications != verifications for each in answers):
        raise UsageError("these runs differ in their tasks or in the number of verifications")
    campaigns: dict[tuple[str, str, int], EvaluatedCampaign] = {}
    for campaign in (campaign for answer in answers for campaign in answer.campaigns):
        key = campaign.arm, campaign.task, campaign.seed
        if campaigns.setdefault(key, campaign).campaign != campaign.campaign:
            raise UsageError(f"two runs have another campaign of {key[0]} on {key[1]} with seed {key[2]}")
    seeds = tuple(sorted({seed for _, _, seed in campaigns}))
    arms = dict.fromkeys(arm for arm, _, _ in campaigns)
    spec = EvaluateSpec(tasks=tasks, seeds=seeds, verifications=verifications, arms=dict.fromkeys(arms, ANY_ARM))
    policies = {arm: each.policy for answer in answers for arm, each in answer.arms.items() if each.policy}
    figures, minus = compared(list(campaigns.values()), tasks, spec, policies, {})
    return EvaluationAnswer(
        arms=figures,
        differences=minus,
        tasks=tasks,
        seeds=seeds,
        verifications=verifications,
        campaigns=tuple(campaigns.values()),
    )


ANY_ARM = ArmSpec(policy="scripted")  # only the names of arms are used


def table(answer: EvaluationAnswer) -> str:
    """Returns the figures of all arms, and their differences from the arms in `AGAINST`, as Markdown."""
    lines = [_row("arm", "seeds", "hits", "verifications", *SCORES.values(), "valid calls"), _row(*["---"] * 8)]
    for name, arm in answer.arms.items():
        lines.append(_row(f"`{name}`", *_figures(answer, name, arm)))
    lines += ["", _row("difference", *SCORES.values()), _row(*["---"] * 4)]
    for other in AGAINST:
        lines += [_row(f"`{name}` − `{other}`", *texts) for name, texts in _differences(answer, other)]
    return "\n".join(lines) + "\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _figures(answer: EvaluationAnswer, name: str, arm: EvaluatedArm) -> Iterator[str]:
    seeds = sorted({each.seed for each in answer.campaigns if each.arm == name})
    yield from (", ".join(map(str, seeds)), str(arm.hits), str(arm.verifications))
    yield from (interval_text(getattr(arm, score)) for score in SCORES)
    yield "" if arm.valid is None else f"{arm.valid:.0%}"


def _differences(answer: EvaluationAnswer, other: str) -> Iterator[tuple[str, list[str]]]:
    """Yields each arm minus another one, on the tasks and seeds that both have."""
    for each in answer.differences:
        if other in (each.arm, each.minus) and {each.arm, each.minus} <= set(answer.arms):
            sign = 1 if each.minus == other else -1
            yield (
                (each.minus if sign < 0 else each.arm),
                [interval_text(_signed(each, score, sign)) for score in SCORES],
            )


def _signed(each: ArmDifference, score: str, sign: int) -> tuple[float, float, float] | None:
    values = getattr(each, score)
    if values is None or sign > 0:
        return values
    mean, low, high = values
    return -mean, -high, -low


def draw(arms: Mapping[str, EvaluatedArm], path: Path) -> None:
    """Draws each score as a dot with its interval, a row for each arm."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(arms)[::-1]
    figure, panels = plt.subplots(
        1, len(SCORES), figsize=(10.5, 0.9 + 0.32 * len(names)), sharey=True, layout="constrained"
    )
    for axes, (score, label) in zip(panels, SCORES.items(), strict=True):
        for place, name in enumerate(names):
            if (values := getattr(arms[name], score)) is not None:
                mean, low, high = values
                axes.plot([low, high], [place, place], color="#777777", linewidth=1.6)
                axes.plot([mean], [place], "o", color="#1f5fa8")
        axes.set_xlabel(label)
        axes.set_xlim(left=0)
        axes.grid(axis="x", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(range(len(names)), names)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True, help="stem of the table (.md) and of the chart (.png)")
    parser.add_argument("--arms", nargs="+", help="only these, in this order")
    given = parser.parse_args()
    answer = merged([read(path) for path in given.runs])
    names = given.arms or list(answer.arms)
    answer = answer.model_copy(update={"arms": {name: answer.arms[name] for name in names}})
    given.out.with_suffix(".md").write_text(table(answer), encoding="utf-8")
    draw(answer.arms, given.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
