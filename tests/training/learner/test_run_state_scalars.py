"""Figures of steps for TensorBoard."""

from __future__ import annotations

from sciagent.training.learner.run_state import scalars
from tests.report.trained_steps import step


def test_every_figure_of_a_step_has_a_name() -> None:
    found = scalars(step(3, reward=0.5, terms={"cost": -0.1, "evidence": 0.6}))
    assert found["loss"] == 1.0 / 3 and found["reward"] == 0.5
    assert found["terms/cost"] == -0.1 and found["seconds/update"] == 3.0
    assert not {"step", "epoch", "policy", "kl"} & found.keys(), "what is no figure, or not known, is left out"
