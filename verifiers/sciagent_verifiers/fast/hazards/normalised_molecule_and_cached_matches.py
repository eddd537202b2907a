"""The normalised form of a molecule for hazard rules: without isotopes, with charges neutralised by protons."""

from __future__ import annotations

import re
from functools import cache, cached_property
from itertools import chain
from typing import Any

_MASS = {"C": 12.011, "H": 1.008, "N": 14.007, "O": 15.999}  # g/mol
_ORGANIC = ("C", "N", "O", "F", "P", "S", "Cl", "Br", "I", "B", "Si", "Se")
_TAKE_PROTONS = {"C", "N", "O", "F", "P", "S", "Cl", "As", "Se", "Br", "I"}  # elements whose anions are protonated

_MOVABLE = "[$([+1,+2,+3,+4;!H0]),$([-1,-2,-3,-4;!$(*~[+1,+2,+3,+4])])]"  # charges that protons can neutralise
_ATOMS = re.compile(r"([A-Z][a-z]?)\]?(\d*)")  # symbol and number in a formula; a bracket ends an isotope's symbol


@cache
def _pattern(smarts: str) -> Any:
    from rdkit import Chem

    return Chem.MolFromSmarts(smarts)


class Drawing:
    """A molecule in the form that the rules match. mol: an RDKit molecule; it is copied before any change.

    Isotope labels and explicit hydrogens are removed, and charges that protons can compensate are neutralised. Charges
    that belong to the structure (nitro, azide, quaternary nitrogen) stay. There may be several fragments.

    counts: numbers of atoms by symbol, without hydrogen; "X" is all halogens, "M" all elements outside organic
    chemistry. formula: heavy atoms in alphabetical order.
    """

    def __init__(self, mol: Any) -> None:
        from rdkit.Chem.rdMolDescriptors import CalcMolFormula

        text = CalcMolFormula(mol, separateIsotopes=True, abbreviateHIsotopes=False)
        counts: dict[str, int] = {}
        for symbol, n in _ATOMS.findall(text):
            counts[symbol] = counts.get(symbol, 0) + (int(n) if n else 1)
        counts.pop("H", None)
        self.formula = "".join([f"{symbol}{n if n > 1 else ''}" for symbol, n in sorted(counts.items())])
        self.heavy = sum(counts.values())
        self.counts = counts
        n_other_elements = self.heavy - sum([counts.get(symbol, 0) for symbol in _ORGANIC])
        n_halogens = sum([counts.get(symbol, 0) for symbol in ("F", "Cl", "Br", "I")])
        if n_other_elements:
            counts["M"] = n_other_elements
        if n_halogens:
            counts["X"] = n_halogens
        is_labelled = "[" in text or mol.GetNumAtoms() != self.heavy  # with isotopes or explicit hydrogens
        is_changed = is_labelled or mol.HasSubstructMatch(_pattern(_MOVABLE))
        self.mol = _normalised(mol, is_labelled) if is_changed else mol
        self._has_match: dict[str, bool] = {}

    def has(self, smarts: str) -> bool:
        """Returns whether a pattern matches; the result is cached."""
        if smarts not in self._has_match:
            self._has_match[smarts] = self.mol.HasSubstructMatch(_pattern(smarts))
        return self._has_match[smarts]

    def n_matches(self, smarts: str) -> int:
        """Returns the number of sets of atoms that match."""
        return len(self.mol.GetSubstructMatches(_pattern(smarts)))

    def n_matched_atoms(self, smarts: str) -> int:
        """Returns the number of atoms in any match."""
        matches = self.mol.GetSubstructMatches(_pattern(smarts))
        return len(set(chain.from_iterable(matches)))

    @cached_property
    def hydrogens(self) -> int:
        """Number of hydrogen atoms."""
        return sum(atom.GetTotalNumHs(includeNeighbors=True) for atom in self.mol.GetAtoms())

    @cached_property
    def exact_mass(self) -> float:
        """Monoisotopic mass, g/mol."""
        from rdkit.Chem.rdMolDescriptors import CalcExactMolWt

        return float(CalcExactMolWt(self.mol))

    @cached_property
    def key(self) -> str:
        """The first block of the standard InChIKey; empty if InChI fails."""
        from rdkit.Chem import rdinchi

        inchi = rdinchi.MolToInchi(self.mol)[0]
        return str(rdinchi.InchiToInchiKey(inchi))[:14] if inchi else ""

    @cached_property
    def oxygen_balance(self) -> float | None:
        """The oxygen balance to carbon dioxide and water, percent by mass; None outside CHNO, where it is undefined.

        Source: Lothrop, Handrick, Chem. Rev. 44, 419 (1949): OB = -1600 (2 C + H/2 - O) / M.
        """
        c = self.counts.get("C", 0)
        n = self.counts.get("N", 0)
        o = self.counts.get("O", 0)
        h = self.hydrogens
        if self.heavy != c + n + o:
            return None
        mass = c * _MASS["C"] + n * _MASS["N"] + o * _MASS["O"] + h * _MASS["H"]
        return -1600 * (2 * c + h / 2 - o) / mass if mass else None


def _normalised(mol: Any, is_labelled: bool) -> Any:
    """Returns a copy with neutralised charges; if it is labelled, also without isotopes and explicit hydrogens."""
    from rdkit import Chem

    from sciagent.chemistry.rdkit_messages import rdkit_messages

    changed = Chem.RWMol(mol)
    if is_labelled:
        for atom in changed.GetAtoms():
            atom.SetIsotope(0)
        with rdkit_messages():
            changed = Chem.RWMol(Chem.RemoveHs(changed))
    for (index,) in changed.GetSubstructMatches(_pattern(_MOVABLE)):
        _neutralise(changed.GetAtomWithIdx(index))
    changed.UpdatePropertyCache(strict=False)
    return changed.GetMol()


def _neutralise(atom: Any) -> None:
    """Removes a charge by adding or removing protons, unless a neighbour has the opposite charge."""
    charge = atom.GetFormalCharge()
    hydrogens = atom.GetTotalNumHs()
    if any(charge * other.GetFormalCharge() < 0 for other in atom.GetNeighbors()):
        return
    if charge < 0 and atom.GetSymbol() not in _TAKE_PROTONS:
        return
    removed_protons = min(charge, hydrogens) if charge > 0 else charge  # negative if protons are added
    atom.SetNumExplicitHs(hydrogens - removed_protons)
    atom.SetFormalCharge(charge - removed_protons)
    atom.SetNoImplicit(True)
