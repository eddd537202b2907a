"""The routes that BRICS finds, against couplings that a chemist would run."""

from __future__ import annotations

import pytest

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent_verifiers.fast.brics_routes import BricsRoutes, _Search
from tests.verifiers.references import shelf
from tests.verifiers.synthesised import PARACETAMOL, values, verify

__all__ = ["shelf"]


@pytest.mark.parametrize(
    ("smiles", "steps", "last"),
    [
        (PARACETAMOL, 1, "acylation"),  # the textbook synthesis
        ("c1ccc(-c2ccncc2)cc1", 1, "Suzuki coupling"),
        ("O=S(=O)(c1ccccc1)N1CCOCC1", 1, "sulfonylation"),
        ("CC(=O)Nc1ccc(OC(C)=O)cc1", 2, "acylation"),
        ("CC(=O)O", 0, None),
    ],
)
def test_brics_finds_the_couplings_a_chemist_would_run(shelf, smiles, steps, last):
    finding = verify(shelf, smiles, routes="brics")
    assert finding.outcome is Outcome.OK
    assert values(finding)["synthesis_steps"] == steps
    route = finding.diagnostics["route"]
    assert [r["name"] for r in route][:1] == ([last] if last else [])
    assert len(route) == steps


def test_fewer_steps_than_a_route_needs_find_none(shelf):
    one = {"finder": "brics", "settings": {"max_steps": 1}}
    assert verify(shelf, "CC(=O)Nc1ccc(OC(C)=O)cc1", routes=one).reason is Reason.NO_ROUTE


def test_a_molecule_may_be_joined_from_two_that_are_made_first():
    """Two halves of an amide, each of which is made from the stock in one step."""
    finder = BricsRoutes({"max_steps": 3})
    search = _Search({"CC(=O)O", "Nc1ccc(C(=O)O)cc1", "OB(O)c1ccccc1", "Nc1ccc(Br)cc1"}, remaining_cuts=200)
    acid = "CC(=O)Nc1ccc(C(=O)O)cc1"
    amine = "Nc1ccc(-c2ccccc2)cc1"
    routes = list(finder._routes_to_both(acid, amine, 2, search))
    assert [[reaction.name for reaction in route] for route in routes] == [["acylation", "Suzuki coupling"]]
    assert list(finder._routes_to_both(acid, "CCCCCC", 2, search)) == []
    assert list(finder._routes_to_both("CCCCCC", acid, 2, search)) == []
