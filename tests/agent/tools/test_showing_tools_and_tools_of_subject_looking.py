"""The tools that show something, on a bench in memory."""

from __future__ import annotations

from rdkit import Chem

from tests.agent.tools.calling import TOOLS, call
from tests.support.memory_bench import MemoryBench


def test_a_site_that_inspect_lists_is_where_the_edit_is_made():
    bench = MemoryBench("Cc1ccccc1")
    seen = call(bench, "inspect", molecule="#1")
    head, results, *_ = seen.text.splitlines()
    assert "C7H8" in head and results == "checks: pass, 7 heavy atoms"
    sites = [part for line in seen.text.splitlines() if line.startswith("add substituent") for part in line.split("; ")]
    children = []
    for site in sites:
        number = int(site.removeprefix("add substituent").lstrip(", swapCHforN:").split()[0])
        bench = MemoryBench("Cc1ccccc1")
        call(bench, "modify", parent="#1", edit="add substituent", what="chloro", where=number)
        children.append(bench.handed[-1].text)
    by_hand = ["ClCc1ccccc1", "Cc1ccccc1Cl", "Cc1cccc(Cl)c1", "Cc1ccc(Cl)cc1"]
    assert sorted(children) == sorted(Chem.MolToSmiles(Chem.MolFromSmiles(smiles)) for smiles in by_hand)


def test_what_is_told_of_the_campaign():
    bench = MemoryBench("Cc1ccccc1", "C(")
    assert call(bench, "best", n=1).text.startswith("#1 Cc1ccccc1 [")
    assert call(bench, "best", n=1).text.endswith("] P(hit) 50 %, expected utility 0.07; seed")
    bench.vetoed.update(bench.molecules)
    assert ", known here, vetoed by ann: smells" in call(bench, "inspect", molecule="#1").text
    refused = call(bench, "modify", parent="#1", edit="add substituent", what="chloro")
    assert not refused.ok and "Cc1ccccc1 is vetoed by ann: smells; nothing is bred from it" in refused.text
    bench.vetoed.clear()
    bench.held.update(bench.molecules)
    assert "expected utility 0.07, held by a person: nothing is run for it; seed" in call(bench, "best", n=1).text
    assert call(bench, "history", n=1).text == "C( refused (unparsable) seed"
    assert call(bench, "budget").text == "goal: largest homo_lumo_gap\nleft: proposals 98, core_seconds 3600"
    assert TOOLS.call("budget", "", bench).ok
    assert call(bench, "note", text="fluoro\nhelps\0").ok and bench.notes == ["fluoro\\u000ahelps\\u0000"]
    end = call(bench, "finish", reason="enough")
    assert end.ended and end.ok
