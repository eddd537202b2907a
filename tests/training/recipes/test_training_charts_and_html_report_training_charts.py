"""The charts of training: which there are, and what is in them."""

from __future__ import annotations

from sciagent.training.recipes.training_charts_and_html_report import TrainingCurve, evaluation_chart, training_charts
from tests.report.trained_steps import stage, step

TAUGHT = TrainingCurve("sft", [step(1), step(2)])
TERMS = {"cost": -0.1, "evidence": 0.6}
LIVE = TrainingCurve("grpo", [step(n, reward=0.5 + n / 10, kl=0.1, groups=2, terms=TERMS) for n in (1, 2, 3)])


def drawn(*runs: TrainingCurve) -> dict[str, str]:
    return {caption: chart for chart, caption in training_charts(runs)}


def test_there_is_a_chart_for_what_is_known() -> None:
    taught, live = drawn(TAUGHT), drawn(TAUGHT, LIVE)
    assert list(taught) == ["Loss on the rows of data sets", "Entropy of the next token", "Time of a step, by phase"]
    assert {"Loss on the live ladder", "Mean reward of an episode, and its parts"} <= live.keys()
    assert {"Share of tokens that were masked", "Divergence from the model at the start"} <= live.keys()
    ppo = drawn(TrainingCurve("ppo", [step(n, groups=2, explained_variance=n / 10) for n in (1, 2)]))
    assert "Variance of what turns earned that the value head had foreseen" in ppo
    assert drawn() == {}


def test_parts_of_the_reward_and_phases_are_named() -> None:
    charts = drawn(TAUGHT, LIVE)
    reward = charts["Mean reward of an episode, and its parts"]
    assert all(f">{name}<" in reward for name in ("reward", "cost", "evidence"))
    time = charts["Time of a step, by phase"]
    assert all(f">{name}<" in time for name in ("sampling", "verification", "update", "sft", "grpo"))


def test_stages_that_were_compared_are_drawn() -> None:
    before, after = (0.2, 0.1, 0.3), (0.4, 0.3, 0.5)
    chart = evaluation_chart([stage("sft"), stage("grpo", before=before, after=after, difference=(0.2, 0.1, 0.3))])
    assert ">grpo<" in chart and ">sft<" not in chart
    assert evaluation_chart([stage("sft")]) == ""
