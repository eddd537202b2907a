"""The tools that make and look at molecules, on a bench in memory. `test_named` has the children of all edits."""

from __future__ import annotations

import json

import pytest
from rdkit import Chem

from sciagent.agent.tools.tool_contract_and_calls import Observation, Registry, Tool, ToolContext
from sciagent.chemistry.editing.mutate_and_crossover import EditLimits
from sciagent.chemistry.molecule import parse_molecule
from sciagent.errors import StaleLeaseError
from tests.agent.tools.calling import call
from tests.chemistry.editing.children import canonical
from tests.support.memory_bench import MemoryBench


@pytest.mark.parametrize(
    ("parent", "edit", "what", "child"),
    [("Cc1ccccc1", "replace substituent", "cyano", "N#Cc1ccccc1"), ("c1ccncc1", "swap N for CH", None, "c1ccccc1")],
)
def test_modify_proposes_the_child_with_its_parent_and_the_name_of_the_edit(parent, edit, what, child):
    bench = MemoryBench()
    seen = call(bench, "modify", parent=parent, edit=edit, what=what, where=None)
    assert seen.ok and seen.text.startswith("new #1: "), seen.text
    (handed,) = bench.handed
    assert canonical(handed.text) == canonical(child)
    assert handed.parents == (parse_molecule(parent).key,)
    assert handed.operation == f"modify: {edit} {what or ''}".strip()


def test_the_seed_chooses_what_is_left_open_and_always_the_same():
    def made(seed: int) -> str:
        bench = MemoryBench("CC(=O)Nc1ccc(OCC)cc1", "c1ccc2[nH]ccc2c1")
        asked = [
            call(bench, "modify", seed=seed, parent="#1", edit="add substituent"),
            call(bench, "crossover", seed=seed, first="#1", second="#2"),
            call(bench, "neighbours", seed=seed, parent="#1", n=12),
        ]
        return json.dumps([answer.text for answer in asked])

    assert made(1) == made(1) and made(2) == made(2)
    assert len({made(seed) for seed in range(6)}) == 6


def test_the_same_call_again_makes_another_molecule_while_there_is_one():
    bench = MemoryBench("Cc1ccccc1")
    given = {"parent": "Cc1ccccc1", "edit": "add substituent", "what": "fluoro"}
    seen = [call(bench, "modify", **given) for _ in range(5)]
    assert [answer.text.split()[0] for answer in seen] == ["new"] * 4 + ["duplicate"]
    assert len({proposal.text for proposal in bench.handed[1:5]}) == 4


def test_an_edit_that_does_not_fit_is_answered_with_those_that_do():
    seen = call(MemoryBench(), "modify", parent="c1ccccc1", edit="remove substituent")
    assert not seen.ok
    assert "what fits: add substituent, swap ring, fuse ring, swap CH for N" in seen.text
    there = call(MemoryBench(), "modify", parent="Cc1ccccc1", edit="swap ring", where=1)
    assert "what fits there: add substituent" in there.text and "sites for swap ring: 6" in there.text
    far = call(MemoryBench(), "modify", parent="Cc1ccccc1", edit="swap ring", where=99)
    assert "sites 1 to 8" in far.text
    wrong = call(MemoryBench(), "modify", parent="Cc1ccccc1", edit="swap ring", what="fluoro")
    assert "does not take fluoro; it takes one of: benzene" in wrong.text


def test_propose_hands_over_what_was_predicted():
    bench = MemoryBench()
    predictions = [{"property": "homo_lumo_gap", "value": 4, "error": 0.5}]
    seen = call(bench, "propose", smiles="OCC", rationale="a\u202eb", predictions=predictions)
    assert seen.ok and seen.text.startswith("new #1: OCC")
    (handed,) = bench.handed
    assert handed.predicted == {"homo_lumo_gap": {"value": 4.0, "error": 0.5}}
    assert handed.rationale == "a\\u202eb" and handed.operation == "propose"
    assert call(bench, "propose", smiles="CCO").text.startswith("duplicate #1: ")
    bad = call(bench, "propose", smiles="C(C)(C)(C)(C)C")
    assert not bad.ok and "valence" in bad.text
    twice = call(bench, "propose", smiles="C", predictions=predictions * 2)
    assert not twice.ok and "predicted twice" in twice.text


def test_neighbours_are_single_edits_and_none_is_proposed():
    bench = MemoryBench("Cc1ccccc1")
    seen = call(bench, "neighbours", parent="#1", n=12)
    rows = [line.split("  ") for line in seen.text.splitlines()[1:]]
    assert len(rows) == 12 and len(bench.handed) == 1
    for smiles, edit in rows:
        assert edit.split()[0] in ("add", "replace", "remove", "swap", "fuse", "insert")
        assert Chem.MolFromSmiles(smiles) is not None
    only = call(bench, "neighbours", parent="#1", edit="fuse ring")
    assert all("  fuse ring" in line for line in only.text.splitlines()[1:])


def test_limits_of_the_episode_hold():
    tight = EditLimits(max_heavy_atoms=7)
    bench = MemoryBench()
    assert not call(bench, "modify", limits=tight, parent="Cc1ccccc1", edit="add substituent").ok
    assert "too many to edit" in call(bench, "modify", limits=tight, parent="CCc1ccccc1", edit="swap ring").text
    assert bench.handed == []


def test_crossover_needs_two_molecules_that_give_a_child():
    bench = MemoryBench("CC(=O)Nc1ccc(OCC)cc1", "c1ccc2[nH]ccc2c1")
    seen = call(bench, "crossover", first="#1", second="#2")
    assert seen.text.startswith("new #3: ")
    assert bench.handed[-1].operation in ("crossover: chain crossover", "crossover: ring crossover")
    assert len(bench.handed[-1].parents) == 2
    assert "no child" in call(bench, "crossover", first="C", second="O").text


def breaks(run: ToolContext) -> Observation:
    """Fails through no fault of the call."""
    raise ZeroDivisionError("ours")


def loses(run: ToolContext) -> Observation:
    """Finds that somebody else has the lease."""
    raise StaleLeaseError("lost")


def test_an_error_of_ours_is_kept_and_the_ledgers_goes_through():
    tools = Registry([Tool(breaks), Tool(loses)])
    seen = tools.call("breaks", "{}", MemoryBench())
    assert not seen.ok and "no fault of the call" in seen.text and "ours" not in seen.text
    with pytest.raises(StaleLeaseError):
        tools.call("loses", "{}", MemoryBench())
