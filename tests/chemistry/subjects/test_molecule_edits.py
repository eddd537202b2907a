"""The edits of molecules hold to what the rungs of checks allow."""

from __future__ import annotations

import random

import pytest

from sciagent.chemistry.editing.mutate_and_crossover import ANY
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import needed_edits
from sciagent.verification.verifier_registry import verifier_class
from tests.support.subjects import MOLECULES

EDITS = needed_edits(MOLECULES)


def test_limits_are_those_of_the_checks_and_of_the_proposer() -> None:
    checks = verifier_class("molecule.checks")
    settings = [checks({"elements": ["C", "H", "O"], "max_heavy_atoms": most}).settings for most in (9, 12)]
    limits = EDITS.limits(settings, 20)
    assert limits.max_heavy_atoms == 9 and set(limits.elements) == {"C", "H", "O"}
    assert EDITS.limits() == ANY


@pytest.mark.parametrize("operation", [*EDITS.operations[:3], EDITS.crossovers[0]])
def test_a_seed_gives_the_same_child(operation: str) -> None:
    def child() -> object:
        rng, pair = random.Random(3), ("CCOc1ccccc1", "CCNC(=O)c1ccncc1")
        if operation in EDITS.crossovers:
            return EDITS.cross(pair, rng, ANY, operation)
        return EDITS.mutate(pair[0], rng, operation, ANY)

    assert child() == child()


def test_a_large_molecule_is_not_edited() -> None:
    assert EDITS.too_large(MOLECULES.read("C" * 61), ANY) == "61 heavy atoms are too many to edit; the limit is 60"
