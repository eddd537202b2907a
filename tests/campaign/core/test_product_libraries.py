from __future__ import annotations

from pathlib import Path

from sciagent.campaign.core.product_libraries import unused_reactants
from sciagent.campaign.file.campaign_spec import parse_spec

AMIDES = """
campaign: amides
subject: molecule
objectives: [{property: logp, max: 3}]
ladder: [{verifier: molecule.checks}]
goal: {kind: hits, count: 5}
budget: {proposals: 100}
proposer:
  kind: enumerate
  reaction: '[C:1](=[O:2])[OX2H1].[NX3;H2,H1;!$(NC=O):3]>>[C:1](=[O:2])[N:3]'
  reactants:
    1: ['CC(=O)O acetic acid', CCO ethanol]
    2: [CN, CC(N)=O acetamide, C, CC, CCC, CCCC, CCCCC]
scheduler: {kind: exhaustive}
"""


def test_reactants_that_cannot_react_are_counted_and_the_first_are_named(tmp_path: Path) -> None:
    lacks = "left out, without the group that the reaction needs there"
    assert list(unused_reactants(parse_spec(AMIDES, base=tmp_path))) == [
        f"reactant 1: 1 {lacks}: ethanol",
        f"reactant 2: 6 {lacks}: acetamide, C, CC, CCC, CCCC and 1 more",
    ]


def test_a_library_that_uses_all_has_nothing_to_say(tmp_path: Path) -> None:
    all_react = AMIDES.replace(", CCO ethanol", "").replace(", CC(N)=O acetamide, C, CC, CCC, CCCC, CCCCC", "")
    assert not list(unused_reactants(parse_spec(all_react, base=tmp_path)))
