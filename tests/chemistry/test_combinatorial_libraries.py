"""Libraries of combinations: exact, in a fixed order, with a clear error for what cannot be used."""

from __future__ import annotations

from itertools import product

import pytest
from rdkit import Chem

from sciagent.chemistry.combinatorial_libraries import Block, ReactionLibrary, ScaffoldLibrary, block
from sciagent.errors import UsageError

AMIDE = "[C:1](=[O:2])[OX2H1].[NX3;H2,H1;!$(NC=O):3]>>[C:1](=[O:2])[N:3]"


def blocks(*texts: str) -> list[Block]:
    return [block(text) for text in texts]


def test_a_scaffold_with_two_lists_gives_every_combination_in_order() -> None:
    first, second = ("F fluoro", "*C#N cyano", "[H]"), ("OC methoxy", "N(C)C", "*c1ccccc1 phenyl", "Br")
    library = ScaffoldLibrary("c1cc([*:1])cc([*:2])n1", {2: blocks(*second), 1: blocks(*first)})
    made = [library.products(number) for number in range(library.size)]
    # written by hand, group by group, as an independent reference
    ones, twos = ("F", "C#N", "[H]"), ("OC", "N(C)C", "c2ccccc2", "Br")
    expected = [f"c1cc({one})cc({two})n1" for one, two in product(ones, twos)]
    assert [smiles for (smiles,) in made] == [Chem.CanonSmiles(smiles) for smiles in expected]
    assert library.size == library.n_products == 12 == len({smiles for (smiles,) in made})
    assert library.names(1) == {"name": "fluoro, N(C)C", "R1": "fluoro", "R2": "N(C)C"}
    long = ScaffoldLibrary("c1ccc([*:1])cc1[*:2]", {1: blocks("F " + "f" * 150), 2: blocks("Cl " + "c" * 150)})
    assert len(long.names(0)["name"]) == 200, "what the ledger takes"
    assert library.names(11) == {"name": "[H], Br", "R1": "[H]", "R2": "Br"}


@pytest.mark.parametrize(
    ("scaffold", "group", "expected"),
    [
        ("[*:1]c1ccc([*:1])cc1", "OC", "COc1ccc(OC)cc1"),  # a point that stands twice
        ("C[C@H](F)[*:1]", "Cl", "C[C@H](F)Cl"),  # the configuration is kept
        ("[*:1]N1CCOCC1", "C(=O)C", "CC(=O)N1CCOCC1"),
        ("[*:1]c1ccccc1", "[NH3+]", "[NH3+]c1ccccc1"),
        ("[*:1]c1ccccc1", "*S(=O)(=O)C", "CS(=O)(=O)c1ccccc1"),
    ],
)
def test_a_group_binds_by_its_star_or_its_first_atom(scaffold: str, group: str, expected: str) -> None:
    assert ScaffoldLibrary(scaffold, {1: blocks(group)}).products(0) == [Chem.CanonSmiles(expected)]


def test_a_combination_that_cannot_be_joined_is_an_empty_text() -> None:
    library = ScaffoldLibrary("[*:1]F", {1: blocks("C", "[CH4]", "*Br")})
    assert [library.products(number) for number in range(3)] == [["CF"], [""], ["FBr"]]


def test_a_reaction_gives_each_product_once_and_leaves_out_what_does_not_react() -> None:
    library = ReactionLibrary(AMIDE, {1: blocks("CC(=O)O acetic", "CCO", "OC(=O)CC(=O)O"), 2: blocks("CN", "NCCNC")})
    made = {smiles: library.names(number) for number in range(library.size) for smiles in library.products(number)}
    expected = [
        "CNC(C)=O",
        "CNCCNC(C)=O",
        "CC(=O)N(C)CCN",
        "CNC(=O)CC(=O)O",
        "CNCCNC(=O)CC(=O)O",
        "CN(CCN)C(=O)CC(=O)O",
    ]
    assert set(made) == set(map(Chem.CanonSmiles, expected)) and library.n_products == 6
    assert library.left_out == {"reactant 1": [Block("CCO")], "reactant 2": []}
    assert made["CNC(C)=O"] == {"name": "acetic + CN", "reactant 1": "acetic", "reactant 2": "CN"}


@pytest.mark.parametrize(
    ("scaffold", "groups", "fault"),
    [
        ("c1ccccc1", {}, "attachment points"),
        ("*c1ccccc1", {1: ["F"]}, "a number"),
        ("C[*:1]C", {1: ["F"]}, "one bond"),
        ("C[*:1]", {1: ["F"], 2: ["F"]}, "points 1, and groups are given for 1, 2"),
        ("C(", {1: ["F"]}, "no SMILES"),
        ("C[*:1]", {1: ["*CC*"]}, r"exactly one \*"),
        ("C[*:1]", {1: ["Q"]}, '"Q" is no SMILES'),
    ],
)
def test_what_cannot_be_used_is_named(scaffold: str, groups: dict[int, list[str]], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        ScaffoldLibrary(scaffold, {number: blocks(*texts) for number, texts in groups.items()})


@pytest.mark.parametrize(
    ("reaction", "reactants", "fault"),
    [
        ("C>C", {1: ["C"]}, "no reaction SMARTS"),
        ("[C:1]>>[C:1].[O]", {1: ["C"]}, "exactly one product"),
        (AMIDE, {1: ["CC(=O)O"]}, "reactants 1, 2, and lists are given for 1"),
        (AMIDE, {1: ["CC(=O)O"], 2: ["CC"]}, "no reactant 2 has the group"),
    ],
)
def test_a_reaction_that_cannot_run_is_named(reaction: str, reactants: dict[int, list[str]], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        ReactionLibrary(reaction, {number: blocks(*texts) for number, texts in reactants.items()})
