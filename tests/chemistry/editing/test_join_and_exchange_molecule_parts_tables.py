"""The fragments, rings and templates that edits put in."""

from __future__ import annotations

from rdkit import Chem

from sciagent.chemistry.editing.join_and_exchange_molecule_parts import (
    LINKERS,
    NOT_A_CHILD,
    RINGS,
    SUBSTITUENTS,
    TEMPLATES,
)
from sciagent.chemistry.editing.search_moves import VALENCE
from sciagent.chemistry.rdkit_messages import rdkit_messages
from tests.chemistry.editing.children import rings_of


def test_every_template_fits_some_molecule(seeds):
    parents = [*seeds, "CCCOC", "CCCNC", "CSC", "CC(C)=S", "CCC=CC", "CCNC(C)=O", "O=C1C=CC(=O)C=C1", "CCC=CCC"]
    mols = [Chem.MolFromSmiles(smiles) for smiles in parents]
    idle = []
    for name, templates in TEMPLATES.items():
        for template in templates:
            with rdkit_messages():
                reaction = Chem.rdChemReactions.ReactionFromSmarts(template)
                reaction.Initialize()
                if not any(_sane(product[0]) for mol in mols for product in reaction.RunReactants((mol,))):
                    idle.append((name, template))
    assert idle == []


def _sane(product: Chem.Mol) -> bool:
    try:
        Chem.SanitizeMol(product)
    except ValueError:
        return False
    return True


def test_what_is_put_in_is_a_molecule_by_itself():
    for name, group in SUBSTITUENTS.items():
        mol = Chem.MolFromSmiles(f"C{group}")
        assert mol is not None, name
        assert all(not a.GetNumRadicalElectrons() for a in mol.GetAtoms()), name
        assert not any(mol.HasSubstructMatch(Chem.MolFromSmarts(p)) for p in NOT_A_CHILD), name
    assert all(rings_of(ring) for ring in RINGS)
    assert all(linker.count("*") == 2 and Chem.MolFromSmiles(linker) is not None for linker in LINKERS)
    assert len({Chem.CanonSmiles(r) for r in RINGS}) == len(RINGS)
    assert len({Chem.CanonSmiles(f"[Xe]{g}") for g in SUBSTITUENTS.values()}) == len(SUBSTITUENTS)


def test_valences_are_the_ones_rdkit_fills_up_with_hydrogens():
    for symbol, valence in VALENCE.items():
        atom = Chem.MolFromSmiles(symbol if symbol not in ("Si",) else "[SiH4]").GetAtomWithIdx(0)
        assert atom.GetTotalNumHs() == valence, symbol
