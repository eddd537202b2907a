"""What the law reads of a ladder: its columns, its aims, and what gates say before any answer."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.pricing.observation_schema_and_ledger_pool import KNOWN, ObservationSchema, observation_schema
from sciagent.store.database.ledger import Ledger

ROOT = Path(__file__).parents[3]


def reading(tmp_path: Path, text: str) -> ObservationSchema:
    spec = parse_spec(text, name="x.yaml", base=ROOT / "campaigns")
    found = observation_schema(create_or_open(Ledger(str(tmp_path / "sciagent.db")), spec, text, "me").built)
    assert found is not None
    return found


def template(name: str) -> str:
    return (ROOT / "campaigns" / f"{name}.yaml").read_text()


def test_a_property_that_a_lower_rung_measures_too_is_foretold_by_that_alone(tmp_path: Path) -> None:
    found = reading(tmp_path, template("quickstart"))
    assert [(c.rung, c.at, c.property) for c in found.columns] == [
        (2, 0, "dipole"),
        (2, 0, "homo_lumo_gap"),
        (3, 1, "dipole"),
        (3, 1, "homo_lumo_gap"),
    ]
    assert (found.paid, found.trusted) == ((2, 3), {0})
    gap, dipole = found.aims.aims
    assert (gap.columns, gap.low, gap.high) == ((1, 3), 4.0, 4.6)
    assert (dipole.columns, dipole.low, dipole.high) == ((0, 2), -math.inf, 2.5)
    assert found.aims.kind == "hits"


def test_a_declared_prior_of_the_same_levels_says_how_the_two_scales_lie(tmp_path: Path) -> None:
    gap, dipole = reading(tmp_path, template("quickstart")).aims.hints
    assert (gap.slope, gap.intercept, gap.residual) == (0.85, 2.92, 0.49)
    assert (dipole.slope, dipole.intercept, dipole.residual) == (0.90, 0.04, 0.35)


def test_a_gate_says_where_the_objective_lies_on_the_rungs_own_scale(tmp_path: Path) -> None:
    gap, dipole = reading(tmp_path, template("quickstart").replace("PBE0", "PBE")).aims.hints
    assert gap.slope * 2.05 + gap.intercept == pytest.approx(4.3), "the middle of the gate is that of the window"
    assert gap.residual == pytest.approx(0.5)
    assert (dipole.slope, dipole.intercept) == (1.0, pytest.approx(-0.5))


def test_without_gates_there_are_no_hints(tmp_path: Path) -> None:
    text = template("quickstart")
    begin, end = text.index("    gate:\n      homo_lumo_gap"), text.index("  - rung: dft")
    assert reading(tmp_path, (text[:begin] + text[end:]).replace("PBE0", "PBE")).aims.hints == ()


def test_a_rung_that_measures_an_objective_without_a_hint_is_the_same_property(tmp_path: Path) -> None:
    text = template("quickstart")
    begin, end = text.index("    gate:\n      homo_lumo_gap"), text.index("  - rung: dft")
    found = reading(tmp_path, (text[:begin] + text[end:]).replace("PBE0", "PBE"))
    assert [[found.columns[c].property for c in aim.same] for aim in found.aims.aims] == [["homo_lumo_gap"], ["dipole"]]
    (tmp_path / "hinted").mkdir()
    assert all(aim.hint and not aim.same for aim in reading(tmp_path / "hinted", text).aims.aims)


def test_a_gate_with_one_limit_says_which_end_passes(tmp_path: Path) -> None:
    found = reading(tmp_path, template("redox_anolytes"))
    potential = found.aims.aims[0]
    assert [(found.columns[column].property, end) for column, end in potential.passes] == [
        ("solvation_free_energy", -1)
    ]


def test_an_objective_that_a_lower_rung_decides_ends_there(tmp_path: Path) -> None:
    found = reading(tmp_path, template("redox_anolytes"))
    potential, solvation = found.aims.aims
    decides = [found.columns[one.columns[-1]] for one in (potential, solvation)]
    assert [(c.at, c.property) for c in decides] == [(2, "reduction_potential"), (1, "solvation_free_energy")]
    told = [found.columns[c].property for c in potential.columns[:-1]]
    assert told == ["adiabatic_electron_affinity", "solvation_free_energy"], "what those rungs are gated by"


def test_what_runs_at_once_is_known_of_all(tmp_path: Path) -> None:
    text = template("quickstart").replace(
        "  - property: dipole\n    max: 2.5\n    unit: D\n", "  - property: sa_score\n    max: 3\n"
    )
    found = reading(tmp_path, text)
    score = found.aims.aims[1]
    assert [found.columns[c] for c in score.columns][-1].at == KNOWN


def test_desirabilities_are_those_of_the_objectives(tmp_path: Path) -> None:
    text = (
        template("quickstart")
        .replace("window: [4.0, 4.6]", "minimise: [6.0, 3.0]")
        .replace("goal: {kind: hits}", "goal: {kind: best, count: 3}")
    )
    text = text.replace("    max: 2.5\n", "    max: 2.5\n    scale: 0.7\n")
    spec = parse_spec(text, name="x.yaml", base=ROOT / "campaigns")
    found = reading(tmp_path, text)
    assert (found.aims.kind, found.aims.count) == ("best", 3)
    values = np.linspace(-1, 9, 41)
    for aim, objective in zip(found.aims.aims, spec.domain_objectives(), strict=True):
        assert aim.desirability is not None
        expected = [objective.desirability(float(v)) for v in values]
        assert aim.desirability(values) == pytest.approx(expected)


def test_an_inline_rung_is_known_of_all_and_foretells_as_a_bought_one_does(tmp_path: Path) -> None:
    bought = template("quickstart")
    found = reading(tmp_path, bought.replace("  - rung: xtb\n", "  - rung: xtb\n    inline: true\n"))
    assert found.paid == (3,) and {c.at for c in found.columns if c.rung == 2} == {KNOWN}
    (tmp_path / "other").mkdir()
    assert found.aims.hints == reading(tmp_path / "other", bought).aims.hints != ()
