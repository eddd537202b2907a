"""A screen goes through a file once, in its order, and leaves out the rows that were added since it began."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sciagent.agent.proposers.list_proposers import Screen
from sciagent.domain.proposer_interfaces import Turn
from tests.support.memory_bench import MemoryBench
from tests.support.subjects import MOLECULES


@pytest.mark.parametrize("n_later", [0, 2])
@pytest.mark.parametrize("limit", [1, 2, 9])
def test_the_rows_are_proposed_once_but_for_the_later_ones(tmp_path: Path, n_later: int, limit: int) -> None:
    file = tmp_path / "a.smi"
    texts = ["C", "CC", "CCC", "CCCC", "CCCCC"]
    file.write_text("\n".join(texts))
    proposed: list[str] = []
    cursor: Any = {}
    while cursor is not None:
        bench = MemoryBench()
        screen = Screen(MOLECULES, file, n_later=n_later)
        assert screen.total == 5 - n_later
        cursor = screen.turn(bench, Turn(0, 0, cursor), limit)
        proposed += [given.text for given in bench.handed]
    assert proposed == texts[: 5 - n_later]


def test_enhanced_stereo_groups_are_no_name(tmp_path: Path) -> None:
    file = tmp_path / "a.smi"
    file.write_text("C[C@H](F)Cl |&1:1| rac-7\nCCO ethanol\n")
    first, second = MOLECULES.records(file)
    assert (first.text, first.name) == ("C[C@H](F)Cl |&1:1|", "rac-7")
    assert (second.text, second.name) == ("CCO", "ethanol")
