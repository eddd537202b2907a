"""Objectives, gates and budgets in canonical units."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from sciagent.campaign.file.objectives_and_budget import BudgetSpec
from sciagent.domain.cost_and_budget import RESOURCE_UNITS
from sciagent.domain.objectives import Direction, Window
from tests.campaign.fake_verifiers import changed, make_folder  # noqa: F401

WISH = "    window: [4.0, 4.6]\n    unit: eV\n    scale: 0.5\n"


def test_gates_are_windows_in_canonical_units(folder: Path) -> None:
    limits = ("limits: {wall_seconds: 120}", "gate: {homo_lumo_gap: {min: 3500, max: 5000, unit: meV}}")
    spec = changed(folder, limits)
    assert spec.ladder[0].window_gates() == {"sa_score": Window(None, 4.0)}
    assert spec.ladder[1].window_gates() == {"homo_lumo_gap": Window(3.5, 5.0)}


@pytest.mark.parametrize(
    ("wish", "direction", "accept", "ramp", "scale"),
    [
        ("window: [4.0, 4.6], unit: eV", Direction.WINDOW, Window(4.0, 4.6), None, 0.3),
        ("window: [4000, 4600], unit: meV, scale: 500", Direction.WINDOW, Window(4.0, 4.6), None, 0.5),
        ("window: [4.0, 4.0], unit: eV", Direction.WINDOW, Window(4.0, 4.0), None, 0.4),
        ("min: 4, unit: eV", Direction.LIMIT, Window(4.0, None), None, 0.4),
        ("max: 2000, unit: meV", Direction.LIMIT, Window(None, 2.0), None, 0.2),
        ("max: 0, unit: meV", Direction.LIMIT, Window(None, 0.0), None, 1.0),
        ("min: 1, max: 3, unit: eV", Direction.LIMIT, Window(1.0, 3.0), None, 1.0),
        ("maximise: [1, 3], min: 2, unit: eV", Direction.MAXIMISE, Window(2.0, None), (1.0, 3.0), None),
        ("minimise: [3000, 1000], max: 2000, unit: meV", Direction.MINIMISE, Window(None, 2.0), (3.0, 1.0), None),
    ],
)
def test_objectives_in_canonical_units(
    wish: str, direction: Direction, accept: Window, ramp: tuple[float, float] | None, scale: float | None, folder: Path
) -> None:
    spec = changed(folder, (f"  - property: homo_lumo_gap\n{WISH}", f"  - {{property: homo_lumo_gap, {wish}}}\n"))
    (objective,) = spec.domain_objectives()
    assert (objective.direction, objective.accept, objective.ramp) == (direction, accept, ramp)
    assert scale is None or objective.scale == pytest.approx(scale)
    inside = (accept.low if accept.low is not None else accept.high) or 0.0
    assert accept.distance(inside) == 0


def test_best_needs_no_limits(folder: Path) -> None:
    spec = changed(folder, (WISH, "    maximise: [1, 3]\n    unit: eV\n"), ("kind: hits", "kind: best"))
    assert spec.domain_objectives()[0].accept is None


def test_the_budget_knows_every_resource() -> None:
    assert set(RESOURCE_UNITS) < set(BudgetSpec.model_fields)


def test_weekly_limits_end_with_the_last_day() -> None:
    budget = BudgetSpec.model_validate({"lab_slots": {"amount": 5, "per": "week"}, "until": "2027-01-14"})
    assert budget.weeks(datetime(2027, 1, 1, tzinfo=UTC)) == pytest.approx(2, abs=1e-6)
    assert budget.weeks(datetime(2027, 2, 1, tzinfo=UTC)) == 0
    with pytest.raises(ValidationError, match="is the end of weekly limits, and there are none"):
        BudgetSpec.model_validate({"lab_slots": 5, "until": "2027-01-14"})
