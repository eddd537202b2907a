"""The spread over repeated conformer searches, from the conformers of one search."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem

from sciagent_simulators.low_conformers_and_search_spread import (
    SearchFreedom,
    lowest_probabilities,
    ranks_that_matter,
    search_freedom,
    spread_over_searches,
)


@pytest.mark.parametrize("n", [1, 2, 5, 10])
def test_the_probabilities_are_those_of_the_lowest_of_n_draws(n: int) -> None:
    """Against 200,000 drawn samples; the standard error of a share is at most 0.0011."""
    lowest = np.random.default_rng(1).integers(0, n, size=(200_000, n)).min(axis=1)
    shares = np.bincount(lowest, minlength=n) / len(lowest)
    assert lowest_probabilities(n) == pytest.approx(shares, abs=0.005)
    assert lowest_probabilities(n).sum() == pytest.approx(1.0)


def test_few_ranks_hold_nearly_all_of_the_probability() -> None:
    assert [ranks_that_matter(n) for n in (1, 2, 10, 100)] == [1, 2, 4, 5]


def test_the_spread_is_that_of_the_values_which_repeated_searches_would_give() -> None:
    values = np.array([1.0, 3.0, 2.0, 5.0])
    drawn = values[np.random.default_rng(2).integers(0, 4, size=(200_000, 4)).min(axis=1)]
    assert spread_over_searches(list(values), 4) == pytest.approx(drawn.std(), rel=0.01)


def test_a_conformer_that_is_always_found_has_no_spread_and_missing_ones_are_left_out() -> None:
    assert spread_over_searches([2.0, 2.0, 2.0, 2.0], 10) == 0.0
    assert spread_over_searches([2.0], 1) == 0.0
    assert spread_over_searches([1.0, None, 3.0], 10) == pytest.approx(spread_over_searches([1.0, None, 3.0, None], 10))
    assert spread_over_searches([None, 1.0, 2.0], 10) is None and spread_over_searches([1.0, None, None], 10) is None


@pytest.mark.parametrize(
    ("smiles", "freedom"),
    [
        ("c1ccccc1", SearchFreedom.RIGID),
        ("CC(=O)NC", SearchFreedom.RIGID),
        ("CCCC", SearchFreedom.TURNING),
        ("O=C1CCCCC1", SearchFreedom.TURNING),
        ("OC1CCCCC1", SearchFreedom.POLAR),
        ("CC(O)C1CCCCC1", SearchFreedom.POLAR),
        ("OC1CCC(O)CC1", SearchFreedom.OPEN),
        ("O[C@H]1CC[C@@H](O)CC1", SearchFreedom.POLAR),
        ("CC=CC", SearchFreedom.OPEN),
        ("CC(=N)C#N", SearchFreedom.OPEN),
        ("CN=C=S", SearchFreedom.RIGID),
    ],
    ids=[
        "benzene",
        "amide",
        "chain",
        "ring",
        "OH",
        "enantiomers",
        "cis or trans",
        "cis",
        "E or Z",
        "imine",
        "isothiocyanate",
    ],
)
def test_a_search_settles_chains_rings_polar_hydrogens_and_diastereomers(smiles: str, freedom: SearchFreedom) -> None:
    assert search_freedom(Chem.MolFromSmiles(smiles)) is freedom
