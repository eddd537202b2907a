"""The guard of hints: a planted leak is found in every spelling, and a plain hint passes."""

from __future__ import annotations

import pytest

from sciagent.training.hindsight_goals_and_hints import leaks

ANSWER = ("OC(=O)c1ccccc1", "O=C(O)c1ccccc1", "WPYMKLBDIGXBTP-UHFFFAOYSA-N")
VALUES = (5.123, 118.1)  # eV and kcal/mol


@pytest.mark.parametrize(
    "hint",
    [
        "Propose O=C(O)c1ccccc1.",
        "Propose (O=C(O)c1ccccc1) again.",
        "Something like c1ccc(cc1)C(O)=O would do.",  # another spelling of the same molecule
        "Its InChIKey is WPYMKLBDIGXBTP-UHFFFAOYSA-N.",
        "The gap was 5.12 eV.",
        "The gap was 5.1 eV, or 118.1 kcal/mol.",
        "It came out at 118.",
    ],
)
def test_what_gives_the_answer_away_is_a_leak(hint: str) -> None:
    assert leaks(hint, ANSWER, VALUES)


@pytest.mark.parametrize(
    "hint",
    ["Its homo_lumo_gap came out above what is wanted. Aim for a lower one.", "The rung dft2 refused: too_large."],
)
def test_a_plain_hint_is_none(hint: str) -> None:
    assert not leaks(hint, ANSWER, VALUES)


def test_a_short_smiles_is_a_leak_as_a_word_only() -> None:
    assert leaks("Propose C, or CN.", ["C"], [])
    assert not leaks("Carbon is cheap; take Care.", ["C"], [])
