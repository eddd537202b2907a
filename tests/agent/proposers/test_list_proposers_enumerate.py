"""The proposer goes through a library once, in order, whatever the size of its turns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sciagent.agent.proposers.list_proposers import Enumerate
from sciagent.chemistry.combinatorial_libraries import Combinations, ReactionLibrary, ScaffoldLibrary, block
from sciagent.domain.proposer_interfaces import Turn
from tests.support.memory_bench import MemoryBench

GROUPS = {n: [block(text) for text in ("F", "Cl chloro", "C#N cyano")] for n in (1, 2)}
SCAFFOLD = ScaffoldLibrary("C1C([*:1])OC1[*:2]", GROUPS)
# the diamine gives two amides, so that a turn may end between them
AMIDES = ReactionLibrary(
    "[C:1](=[O:2])[OX2H1].[NX3;H2,H1:3]>>[C:1](=[O:2])[N:3]", {1: [block("CC(=O)O")], 2: [block("NCCNC"), block("CN")]}
)


@pytest.mark.parametrize("library", [SCAFFOLD, AMIDES])
@pytest.mark.parametrize("limit", [1, 2, 100])
def test_each_product_is_proposed_once_over_interrupted_runs(library: Combinations, limit: int) -> None:
    expected = [smiles for number in range(library.size) for smiles in library.products(number)]
    texts: list[str] = []
    cursor: Any = {}
    while cursor is not None:
        bench, proposer = MemoryBench(), Enumerate(library)  # a new process each time
        assert proposer.total == len(expected)
        cursor = proposer.turn(bench, Turn(0, 0, json.loads(json.dumps(cursor))), limit)
        assert len(bench.past) <= limit
        texts += [past["text"] for past in bench.past]
    assert texts == expected
