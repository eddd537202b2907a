"""Merges what several runs of `sciagent evaluate --json` found into one table and one chart.

    python -m benchmarks.learning.results RUN.json... --out benchmarks/learning/results

The figures are made anew from the campaigns of all runs, by the functions of `sciagent evaluate`. Every run must have
the same tasks and number of verifications. A campaign that several runs have must be the same in all of them. Two arms
are compared on the seeds that both have.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from sciagent.cli.policy_and_evaluate import interval_text
from sciagent.errors import UsageError
from sciagent.training.evaluation.arm_figures import compared
from sciagent.training.evaluation.evaluation_command_answers import (
    ArmDifference,
    EvaluatedArm,
    EvaluatedCampaign,
    EvaluationAnswer,
)
from sciagent.training.evaluation.evaluation_spec import EvaluateSpec

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


def merged(answers: Sequence[EvaluationAnswer], arms: Sequence[str] | None = None) -> EvaluationAnswer:
    """Returns one answer with all arms, or those that are named, and their differences from the arms in `AGAINST`.

    Raises UsageError if the answers cannot be compared.
    """
    tasks = answers[0].tasks
    verifications = answers[0].verifications
    if any(set(each.tasks) != set(tasks) or each.verifications != verifications for each in answers):
        raise UsageError("these runs differ in their tasks or in the number of verifications")
    campaigns = _campaigns(answers)
    found = arms or list(campaigns)
    if unknown := [arm for arm in found if arm not in campaigns]:
        raise UsageError(f"no run has the arm {unknown[0]}; there are {', '.join(campaigns)}")
    policies = {arm: each.policy for answer in answers for arm, each in answer.arms.items() if each.policy}

    def of(*names: str) -> tuple[dict[str, EvaluatedArm], tuple[ArmDifference, ...]]:
        """Compares arms on the seeds that all of them have, since seeds that one lacks would widen its interval."""
        seeds = set.intersection(*({each.seed for each in campaigns[name]} for name in names))
        shared = [each for name in names for each in campaigns[name] if each.seed in seeds]
        spec = EvaluateSpec.model_construct(
            tasks=tasks, seeds=tuple(sorted(seeds)), verifications=verifications, arms=dict.fromkeys(names)
        )
        return compared(shared, tasks, spec, policies, {}) if seeds else ({}, ())

    others = [arm for arm in AGAINST if arm in found]
    pairs = [(other, arm) for n, other in enumerate(others) for arm in found if arm not in others[: n + 1]]
    return EvaluationAnswer(
        arms={arm: of(arm)[0][arm] for arm in found},
        differences=tuple(each for pair in pairs for each in of(*pair)[1]),
        tasks=tasks,
        seeds=tuple(sorted({each.seed for arm in found for each in campaigns[arm]})),
        verifications=verifications,
        campaigns=tuple(each for arm in found for each in campaigns[arm]),
    )


def _campaigns(answers: Sequence[EvaluationAnswer]) -> dict[str, list[EvaluatedCampaign]]:
    """Returns the campaigns of all runs by arm. Raises UsageError if two runs have different ones."""
    kept: dict[tuple[str, str, int], EvaluatedCampaign] = {}
    by_arm: dict[str, list[EvaluatedCampaign]] = {}
    for campaign in (campaign for answer in answers for campaign in answer.campaigns):
        key = campaign.arm, campaign.task, campaign.seed
        if key not in kept:
            kept[key] = campaign
            by_arm.setdefault(campaign.arm, []).append(campaign)
        elif kept[key].campaign != campaign.campaign:
            raise UsageError(f"two runs have another campaign of {key[0]} on {key[1]} with seed {key[2]}")
    return by_arm


def table(answer: EvaluationAnswer) -> str:
    """Returns the figures of all arms, and their differences from the arms in `AGAINST`, as Markdown."""
    lines = [_row("arm", "seeds", "hits", "verifications", *SCORES.values(), "scaffolds", "valid"), _row(*["---"] * 9)]
    for name, arm in answer.arms.items():
        lines.append(_row(f"`{name}`", *_figures(answer, name, arm)))
    lines += ["", _row("difference", *SCORES.values()), _row(*["---"] * 4)]
    for each in answer.differences:
        lines.append(_row(f"`{each.arm}` − `{each.minus}`", *(interval_text(getattr(each, score)) for score in SCORES)))
    return "\n".join(lines) + "\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _figures(answer: EvaluationAnswer, name: str, arm: EvaluatedArm) -> Iterator[str]:
    yield from (", ".join(map(str, _seeds(answer, name))), str(arm.hits), str(arm.verifications))
    yield from (interval_text(getattr(arm, score)) for score in SCORES)
    yield str(arm.scaffolds)
    yield "" if arm.valid is None else f"{arm.valid:.0%}"


def _seeds(answer: EvaluationAnswer, name: str) -> list[int]:
    return sorted({each.seed for each in answer.campaigns if each.arm == name})


def draw(answer: EvaluationAnswer, path: Path) -> None:
    """Draws each score as a dot with its interval, a row for each arm."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(answer.arms)[::-1]
    figure, panels = plt.subplots(
        1, len(SCORES), figsize=(10.5, 1.2 + 0.32 * len(names)), sharey=True, layout="constrained"
    )
    for axes, (score, label) in zip(panels, SCORES.items(), strict=True):
        for place, name in enumerate(names):
            if (values := getattr(answer.arms[name], score)) is not None:
                mean, low, high = values
                axes.plot([low, high], [place, place], color="#777777", linewidth=1.6)
                axes.plot([mean], [place], "o", color="#1f5fa8")
        axes.set_xlabel(label)
        axes.set_xlim(left=0)
        axes.grid(axis="x", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    labels = [f"{name} ({n} seed{'s' * (n > 1)})" for name in names for n in [len(_seeds(answer, name))]]
    panels[0].set_yticks(range(len(names)), labels)
    figure.suptitle(f"{len(answer.tasks)} held-out tasks, {answer.verifications} verifications each; 95 % intervals")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True, help="stem of the table (.md) and of the chart (.png)")
    parser.add_argument("--arms", nargs="+", help="only these, in this order")
    given = parser.parse_args()
    answer = merged([read(path) for path in given.runs], given.arms)
    given.out.with_suffix(".md").write_text(table(answer), encoding="utf-8")
    draw(answer, given.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
