"""The molecule that a call names: by SMILES, by a number that stays, or by a key."""

from __future__ import annotations

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.proposer_interfaces import ProposalIn
from tests.agent.tools.calling import call
from tests.support.memory_bench import MemoryBench


def test_a_parent_may_be_a_smiles_a_number_or_the_beginning_of_a_key():
    bench = MemoryBench("Cc1ccccc1", "c1ccccc1", "CCO")
    key = parse_molecule("CCO").key
    assert call(bench, "inspect", molecule="#1").text.startswith("Cc1ccccc1 [")
    assert call(bench, "inspect", molecule=key[:8]).text.startswith("CCO [")
    assert call(bench, "inspect", molecule=key).text.startswith("CCO [")
    assert "C6H6" in call(bench, "inspect", molecule="c1ccccc1").text  # eight hexadecimal digits
    assert "no key among" in call(bench, "inspect", molecule="deadbeef").text
    assert "there is no #4; the last so far is #3" in call(bench, "inspect", molecule="#4").text
    assert "there is no #0; the last so far is #3" in call(bench, "inspect", molecule="#0").text
    assert "nothing has a number yet; give a SMILES" in call(bench, "inspect", molecule="#1", numbered=[]).text


def test_a_number_stays_with_its_molecule():
    bench, numbered = MemoryBench("c1ccccc1", "CCO"), ["c1ccccc1", "CCO"]
    better = call(bench, "propose", smiles="CCc1ccccc1", numbered=numbered)
    assert better.text.startswith("new #3: CCc1ccccc1 ")
    assert call(bench, "inspect", molecule="#1", numbered=numbered).text.startswith("c1ccccc1 [")
    listed = call(bench, "best", n=3, numbered=numbered).text.splitlines()
    assert [line.split()[:2] for line in listed] == [["#3", "CCc1ccccc1"], ["#1", "c1ccccc1"], ["#2", "CCO"]]
    assert call(bench, "propose", smiles="OCC", numbered=numbered).text.startswith("duplicate #2: OCC ")
    assert call(bench, "propose", smiles="C(C)(C)(C)(C)C", numbered=numbered).text.startswith("refused: C(C)")
    bench.propose([ProposalIn("CCCc1ccccc1")])  # somebody else's, which the episode has not seen
    assert call(bench, "best", n=1, numbered=numbered).text.startswith("#4 CCCc1ccccc1 [")
    assert numbered == ["c1ccccc1", "CCO", "CCc1ccccc1", "CCCc1ccccc1"]
