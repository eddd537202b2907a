"""Each class of structures is refused as what it is."""

from __future__ import annotations

from itertools import product

import pytest
from rdkit import Chem

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent_verifiers.fast.hazards.molecule_hazards import GROUPS
from tests.verifiers.safety_table import SCREEN, of_group, refused_as_expected

CHAINS = ("C", "CC", "CCC", "C(C)C", "CCCCCCCCCC", "C1CCCCC1", "CC(C)(C)C", "CCCCCCCCCCCC")


@pytest.mark.parametrize(
    ("template", "rule"),
    [
        ("CP(=O)(F)O{a}", "cwc-1a01-phosphonofluoridate"),
        ("{b}P(=O)(F)OC", "cwc-1a01-phosphonofluoridate"),
        ("{a}OP(=O)(C#N)N(C){b}", "cwc-1a02-phosphorocyanidate"),
        ("{a}OP(C)(=O)SCCN(C){b}", "cwc-1a03-phosphonothiolate"),
        ("ClCCN({a})CCCl", "cwc-1a06-nitrogen-mustard"),
        ("CP(=O)(F)N=C({a})N(C){b}", "cwc-1a13-amidine-phosphonofluoridate"),
    ],
)
def test_every_chain_of_a_scheduled_class_is_refused_under_the_name_of_the_class(template: str, rule: str) -> None:
    for a, b in product(CHAINS, ("C", "CC", "C(C)C")):
        # a group that opens the SMILES is written backwards by RDKit's reader of fragments; both ends are sp3 carbon
        mol = Chem.MolFromSmiles(template.format(a=a, b=b))
        assert mol is not None
        alerts = SCREEN.alerts(parse_molecule(Chem.MolToSmiles(mol)))
        assert rule in {alert.name for alert in alerts}, Chem.MolToSmiles(mol)
        assert alerts[0].group is Reason.CHEMICAL_WEAPON


def test_the_gravest_group_is_the_reason() -> None:
    alerts = SCREEN.alerts(parse_molecule("CC(C)OP(C)(=O)F"))
    assert [alert.group for alert in alerts] == sorted((a.group for a in alerts), key=GROUPS.index)
    refusal = SCREEN.accepts(parse_molecule("CC(C)OP(C)(=O)F"))
    assert refusal is not None and refusal.reason is Reason.CHEMICAL_WEAPON


@pytest.mark.parametrize("group", GROUPS)
def test_what_is_in_the_table_is_refused_as_one_of_its_group(group: Reason) -> None:
    rows = of_group(group)
    assert rows and all(map(refused_as_expected, rows))
