"""A verifier from a function of a crystal: in this process, by `calc`, and in a campaign."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sciagent
from sciagent.chemistry.crystals.prototypes_and_same_structures import decorated
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.errors import UsageError
from tests.support.plugins import register_again


@pytest.fixture(autouse=True)
def registered() -> None:
    """The properties of this module's functions, where another test has had all properties read anew."""
    register_again()


@sciagent.verifier(measures="fn_bond", unit="angstrom", kind="crystal", tier="fast")
def bond(crystal: Any, scale: float = 1.0) -> float:
    """Shortest distance of two atoms."""
    structure = crystal.structure
    return scale * min(site.nn_distance for site in structure.get_neighbors(structure[0], 4.0))


def test_it_is_called_with_a_crystal_or_its_notation() -> None:
    salt = decorated("rocksalt", ["Na", "Cl"])
    expected = salt.structure.volume ** (1 / 3) / 2 ** (
        1 / 3
    )  # half of the edge of the cubic cell, of 4 primitive ones
    assert bond(salt) == pytest.approx(expected, rel=1e-6)
    assert bond("rocksalt: Na Cl", scale=2.0) == pytest.approx(2 * expected, rel=1e-6)
    assert bond.kind.takes("crystal") and not bond.kind.takes("molecule")
    context: Any = None
    [found] = bond.kind().verify((salt,), context)
    assert found.outcome is Outcome.OK and found.measured[0].quantity.value == pytest.approx(expected, rel=1e-6)


def test_a_campaign_on_crystals_runs_it(tmp_path: Path) -> None:
    (tmp_path / "salts.csv").write_text("structure\nrocksalt: Na Cl\nrocksalt: Mg O\n")
    campaign = sciagent.Campaign(
        "short-bonds",
        subject="crystal",
        objectives=[{"property": "fn_bond", "max": 2.3, "unit": "angstrom"}],
        ladder=[{"rung": "bond", "verifier": bond}],
        goal={"kind": "hits"},
        budget={"core_seconds": 60},
        proposer={"kind": "screen", "file": str(tmp_path / "salts.csv")},
        ledger=tmp_path / "ledger.db",
    )
    campaign.run(progress=False)
    best = campaign.best(2)
    assert [(row.text, row.hit) for row in best] == [("MgO Fm-3m", True), ("NaCl Fm-3m", False)]


def test_another_kind_is_a_mistake() -> None:
    with pytest.raises(UsageError, match='kind="cristal"; did you mean "crystal"'):
        sciagent.verifier(measures="fn_bond", kind="cristal", name="fn.cristal")(lambda crystal: 1.0)
