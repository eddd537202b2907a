"""The tools that show something, on a bench in memory."""

from __future__ import annotations

from rdkit import Chem

from tests.agent.tools.calling import TOOLS, call
from tests.support.memory_bench import MemoryBench


def test_a_site_that_inspect_lists_is_where_the_edit_is_made():
    bench = MemoryBench("Cc1ccccc1")
    seen = call(bench, "inspect", molecule="#1")
    assert seen.data["formula"] == "C7H8" and seen.data["told"] == ["checks: pass, 7 heavy atoms"]
    made = {}
    for site in seen.data["sites"]:
        if "add substituent" in site["edits"]:
            child = call(bench, "modify", parent="#1", edit="add substituent", what="chloro", where=site["number"])
            made[site["number"]] = child.data["smiles"]
            bench = MemoryBench("Cc1ccccc1")
    hand = ["ClCc1ccccc1", "Cc1ccccc1Cl", "Cc1cccc(Cl)c1", "Cc1ccc(Cl)cc1"]
    assert sorted(made.values()) == sorted(Chem.MolToSmiles(Chem.MolFromSmiles(s)) for s in hand)


def test_what_is_told_of_the_campaign():
    bench = MemoryBench("Cc1ccccc1", "C(")
    assert call(bench, "best", n=1).text.startswith("#1 0.070 Cc1ccccc1 [")
    assert call(bench, "history", n=1).text == "C( refused (unparsable) seed"
    assert call(bench, "budget").text == "goal: largest homo_lumo_gap\nleft: proposals 98, core_seconds 3600"
    assert TOOLS.call("budget", "", bench).ok
    assert call(bench, "note", text="fluoro\nhelps\0").ok and bench.notes == ["fluoro\\u000ahelps\\u0000"]
    end = call(bench, "finish", reason="enough")
    assert end.ended and end.ok
