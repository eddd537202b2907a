"""Molecules: converts text to a molecule with an identity, or raises a named reason.

The identity is an InChI with fixed hydrogens and reconnected metals. It distinguishes tautomers and, unlike canonical
SMILES, does not change with RDKit releases. It does not distinguish atropisomers, enhanced stereo groups or electronic
states. Net charge and multiplicity are hashed with it.

Text may come from a model or a stranger. It is bounded before RDKit reads it, and only InvalidCandidateError is raised.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from types import NoneType
from typing import Any, Literal

from sciagent.chemistry.rdkit_messages import rdkit_messages
from sciagent.domain.candidate_and_its_names_in_files import candidate_key
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import InvalidCandidateError

MAX_CHARACTERS = 2000
MAX_DEPTH = 100  # nested branches
MAX_HEAVY_ATOMS = 300
MAX_CYCLES = 64  # independent rings; C60 has 31
REMEMBERED = 1 << 15  # number of cached texts, about a kilobyte each
MAX_ATOM_CHARGE = 9  # far below 127, above which InChI wraps around
IDENTITY_OPTIONS = "/FixedH /RecMet"

_BRACKET = re.compile(r"\[([^\[\]]*)\]?")  # the content of a bracket, which may lack its end
_SYMBOL = re.compile(r"\d*([A-Za-z][a-z]?)")
_QUERY = re.compile(r"[*,;!&$~?]")  # a character of a SMARTS pattern
_NOT_SMILES = re.compile(r"[^ -~]")  # not printable ASCII
# only elements, hydrogens, chirality and charges below ten: no wildcard, isotope or map number
_PLAIN = re.compile(r"(?:[A-Za-z0-9()=#/\\@.%:+-]|\[[A-Za-z][a-z]?@{0,2}(?:H\d?)?(?:[+-]\d?)?\])+")
_LARGE_CHARGE = re.compile(r"\[[^\]]*[+-]\d{2,}")  # two digits or more; RDKit keeps only eight bits


@dataclass(frozen=True)
class Molecule:
    """A molecule with charge and spin. Molecules are equal if identity, charge and multiplicity are."""

    smiles: str = field(compare=False)
    """Canonical isomeric SMILES."""
    identity: str
    charge: int
    multiplicity: int
    formula: str = field(compare=False)
    n_atoms: int = field(compare=False)
    """Number of atoms, hydrogens included."""
    heavy_atoms: int = field(compare=False)
    inchikey: str | None = field(compare=False)

    @property
    def kind(self) -> str:
        return "molecule"

    @cached_property
    def key(self) -> str:
        return candidate_key("molecule", self.identity, self.charge, self.multiplicity)

    @property
    def text(self) -> str:
        return self.smiles

    @cached_property
    def mol(self) -> Any:
        """The RDKit molecule, with implicit hydrogens. It is shared: copy it before changing it."""
        from rdkit import Chem

        with rdkit_messages():
            return Chem.MolFromSmiles(self.smiles)

    def payload(self) -> Mapping[str, Any]:
        return {"smiles": self.smiles, "multiplicity": self.multiplicity}

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> Molecule:
        return parse_molecule(payload.get("smiles"), multiplicity=payload.get("multiplicity"))


def parse_molecule(
    text: object, *, standardise: Literal["refuse", "parent"] = "refuse", multiplicity: int | None = None
) -> Molecule:
    """Returns the molecule of a SMILES.

    standardise: treatment of salts and charges. `refuse` accepts only one fragment; `parent` takes the largest organic
    fragment, neutralised. multiplicity: 2S + 1; by default the number of radical electrons plus one. A molecule with
    undefined stereocentres is accepted, as another candidate than one with defined ones.

    Raises InvalidCandidateError, with a Reason, for any text that is not a molecule.
    """
    smiles = _bounded(text)
    if type(multiplicity) not in (int, NoneType):  # `isinstance` would let True pass
        raise _invalid(Reason.MULTIPLICITY, f"multiplicity {ascii(multiplicity)[:20]}; it is a whole number")
    result = _parsed(smiles, standardise, multiplicity)
    if isinstance(result, tuple):
        raise InvalidCandidateError(*result)
    # the caller gets a copy, so that `mol`, once it is computed, is not kept in the cache of texts
    copy = replace(result)
    vars(copy)["key"] = result.key  # computed once for each text
    return copy


def molecule_or_none(
    text: object, standardise: Literal["refuse", "parent"] = "refuse", multiplicity: int | None = None
) -> Molecule | None:
    """Returns the molecule as `parse_molecule` does; None for any text that is not a molecule."""
    with contextlib.suppress(InvalidCandidateError):
        return parse_molecule(text, standardise=standardise, multiplicity=multiplicity)
    return None


@lru_cache(maxsize=REMEMBERED)
def _parsed(smiles: str, standardise: str, multiplicity: int | None) -> Molecule | tuple[Reason, str]:
    """Returns the molecule, or why there is none. Cached, since proposers repeat texts."""
    with rdkit_messages() as messages:
        try:
            return _build(smiles, standardise, multiplicity, messages)
        except InvalidCandidateError as error:
            return Reason(error.reason), error.detail
        except (RuntimeError, ValueError, TypeError, OverflowError) as error:
            message = " ".join(str(error).split())
            shortened = _invalid(Reason.UNPARSABLE, f"RDKit gave up on it: {message}")
            return Reason(shortened.reason), shortened.detail


def _unreadable(whole: Any, atoms: Sequence[Any]) -> str:
    """Returns why a molecule is refused whose canonical SMILES cannot be read.

    whole: the molecule before its parent was taken. atoms: the atoms of the parent. A ring such as cyclopentadienide
    loses its charge when its cation is left out."""
    symbols = {atom.GetSymbol() for atom in whole.GetAtoms()}
    symbols_of_parent = {atom.GetSymbol() for atom in atoms}
    lost_symbols = sorted(symbols - symbols_of_parent)
    if lost_symbols:
        return (
            f"its parent leaves out {', '.join(lost_symbols)}, and RDKit cannot read back the SMILES of what is left; "
            "a complex of a metal must be written as one molecule, with bonds to the metal"
        )
    return "RDKit cannot read back the canonical SMILES that it writes for it"


def _build(smiles: str, standardise: str, multiplicity: int | None, messages: list[str]) -> Molecule:
    """Returns the molecule of a SMILES. Raises InvalidCandidateError. messages: RDKit's messages, as they arrive."""
    from rdkit import Chem
    from rdkit.Chem import rdinchi, rdMolDescriptors

    from sciagent.chemistry.molecule_normal_form import atoms_of, normalise, parent

    mol = normalise(_read(smiles, messages))
    whole = mol
    if standardise == "parent":
        mol = parent(mol)
    else:
        n_fragments = len(Chem.GetMolFrags(mol))
        if n_fragments > 1:
            detail = f"{n_fragments} fragments; give one molecule, or ask for the parent"
            raise _invalid(Reason.MULTIPLE_FRAGMENTS, detail)
    heavy = mol.GetNumHeavyAtoms()
    if heavy > MAX_HEAVY_ATOMS:
        raise _invalid(Reason.TOO_LARGE, f"{heavy} heavy atoms; the limit is {MAX_HEAVY_ATOMS}")
    charge = Chem.GetFormalCharge(mol)
    atoms = atoms_of(mol)
    spin = _multiplicity(atoms, charge, multiplicity)
    canonical = _bounded(Chem.MolToSmiles(mol))
    # RDKit cannot read what it writes for some aromatic systems of many fused rings
    if canonical != smiles and _sanitised(canonical) is None:
        raise _invalid(Reason.UNPARSABLE, _unreadable(whole, atoms))
    identity, _, message, *_ = rdinchi.MolToInchi(mol, IDENTITY_OPTIONS)
    if not identity:
        raise _invalid(Reason.NO_IDENTITY, f"InChI cannot describe it: {message.strip() or 'no reason given'}")
    # the standard InChI has the same first layers, unless bonds to metals make them differ
    has_reconnected_layer = "/r" in identity
    if has_reconnected_layer:
        standard = rdinchi.MolToInchi(mol)[0]
    else:
        first_layers, _, _ = identity.partition("/f")  # /f begins the layer of fixed hydrogens
        standard = "InChI=1S/" + first_layers.removeprefix("InChI=1/")
    return Molecule(
        smiles=canonical,
        identity=identity,
        charge=charge,
        multiplicity=spin,
        formula=rdMolDescriptors.CalcMolFormula(mol),
        n_atoms=mol.GetNumAtoms(onlyExplicit=False),
        heavy_atoms=heavy,
        inchikey=rdinchi.InchiToInchiKey(standard) if standard else None,
    )


def _bounded(text: object) -> str:
    """Returns the text without surrounding white space. Raises InvalidCandidateError unless it is short plain text."""
    if not isinstance(text, str):
        raise _invalid(Reason.NOT_TEXT, f"a SMILES is a string, not {type(text).__name__}")
    if len(text) > MAX_CHARACTERS:
        raise _invalid(Reason.TOO_LONG, f"{len(text)} characters; the limit is {MAX_CHARACTERS}")
    smiles = text.strip(" \t\r\n")
    if not smiles:
        raise _invalid(Reason.EMPTY, "there is no text")
    foreign = _NOT_SMILES.search(smiles)
    if foreign:
        character = foreign[0]
        place = foreign.start() + 1
        if ord(character) < 160:
            raise _invalid(Reason.NOT_TEXT, f"control character U+{ord(character):04X} at position {place}")
        raise _invalid(Reason.UNPARSABLE, f"{character!a} at position {place} is not used in SMILES")
    depth_changes = {"(": 1, ")": -1}
    depths = accumulate(depth_changes.get(character, 0) for character in smiles)
    deepest = max(depths)
    if deepest > MAX_DEPTH:
        raise _invalid(Reason.TOO_DEEP, f"branches nested {deepest} deep; the limit is {MAX_DEPTH}")
    return smiles


def _read(smiles: str, messages: list[str]) -> Any:
    """Returns the sanitised RDKit molecule. Checks the size of the graph before rings and aromaticity are perceived."""
    from rdkit import Chem

    large_charge = _LARGE_CHARGE.search(smiles)
    if large_charge:
        raise _invalid(Reason.CHARGE, f"{large_charge[0]}]: no atom may carry more than {MAX_ATOM_CHARGE} charges")
    params: Any = Chem.SmilesParserParams()
    params.allowCXSMILES = False
    params.parseName = False
    params.removeHs = False
    params.sanitize = False
    graph = Chem.MolFromSmiles(smiles, params)
    if graph is None:
        raise _not_smiles(smiles, messages)
    has_hydrogens = _check_graph(graph, smiles)
    mol = _sanitised(smiles)
    # the graph as it was written shows why there is no molecule, and whether explicit hydrogens exceed a valence
    if has_hydrogens or mol is None:
        try:
            Chem.SanitizeMol(graph)
        except (Chem.KekulizeException, Chem.AtomKekulizeException) as error:
            raise _invalid(Reason.KEKULIZATION, str(error)) from error
        except Chem.AtomValenceException as error:
            raise _invalid(Reason.VALENCE, str(error)) from error
    if mol is None:
        raise _invalid(Reason.UNPARSABLE, _parse_error(messages))
    return mol


def _sanitised(smiles: str) -> Any:
    """Returns the sanitised molecule, with explicit hydrogens made implicit; None if RDKit cannot read it."""
    from rdkit import Chem

    params: Any = Chem.SmilesParserParams()
    params.allowCXSMILES = False
    params.parseName = False
    return Chem.MolFromSmiles(smiles, params)


def _check_graph(graph: Any, smiles: str) -> bool:
    """Returns whether there are explicit hydrogens. Raises InvalidCandidateError for too large or invalid graphs."""
    from rdkit import Chem

    from sciagent.chemistry.molecule_normal_form import atoms_of

    n = graph.GetNumAtoms()
    heavy = graph.GetNumHeavyAtoms()
    if not n:
        raise _invalid(Reason.EMPTY, "there are no atoms")
    if max(heavy, n // 4) > MAX_HEAVY_ATOMS:  # n // 4 limits explicit hydrogens, too
        raise _invalid(Reason.TOO_LARGE, f"{heavy} heavy atoms; the limit is {MAX_HEAVY_ATOMS}")
    cycles = graph.GetNumBonds() - n + len(Chem.GetMolFrags(graph))
    if cycles > MAX_CYCLES:
        raise _invalid(Reason.TOO_LARGE, f"{cycles} rings; the limit is {MAX_CYCLES}")
    if _PLAIN.fullmatch(smiles):  # the checks below find nothing in such a text
        return bool(heavy < n)
    table = Chem.GetPeriodicTable()
    for atom in atoms_of(graph):
        number = atom.GetAtomicNum()
        isotope = atom.GetIsotope()
        if number == 0:
            raise _invalid(Reason.WILDCARD, f"atom {atom.GetIdx() + 1} is a wildcard; every atom needs an element")
        if isotope and table.GetMassForIsotope(number, isotope) <= 0:
            raise _invalid(Reason.ISOTOPE, f"{atom.GetSymbol()} has no known isotope of mass number {isotope}")
        if abs(atom.GetFormalCharge()) > MAX_ATOM_CHARGE:
            raise _invalid(Reason.CHARGE, f"{atom.GetSymbol()} with charge {atom.GetFormalCharge():+d}")
    wildcard_types = (Chem.BondType.UNSPECIFIED, Chem.BondType.ZERO)
    for index in range(graph.GetNumBonds()):
        bond = graph.GetBondWithIdx(index)
        if bond.GetBondType() in wildcard_types:
            raise _invalid(Reason.WILDCARD, f"bond {bond.GetIdx() + 1} is a wildcard; every bond needs an order")
    return bool(heavy < n)


def _multiplicity(atoms: list[Any], charge: int, asked: int | None) -> int:
    """Returns the multiplicity that was asked for, by default the number of radical electrons plus one. Raises
    InvalidCandidateError if the number of electrons does not allow it."""
    radicals = sum(atom.GetNumRadicalElectrons() for atom in atoms)
    electrons = sum(atom.GetAtomicNum() + atom.GetTotalNumHs() for atom in atoms) - charge
    spin = radicals + 1 if asked is None else asked
    if not 1 <= spin <= electrons + 1:
        raise _invalid(Reason.MULTIPLICITY, f"multiplicity {spin} with {electrons} electrons")
    if (electrons - spin) % 2 == 0:
        parity = "odd" if electrons % 2 == 0 else "even"
        raise _invalid(Reason.MULTIPLICITY, f"multiplicity {spin} with {electrons} electrons; it must be {parity}")
    return spin


def _not_smiles(smiles: str, messages: list[str]) -> InvalidCandidateError:
    """Returns why RDKit could not read the SMILES, by the first bracket that explains it."""
    for content in _BRACKET.findall(smiles):
        symbol = _SYMBOL.match(content)
        if _QUERY.search(content):
            return _invalid(Reason.WILDCARD, f"[{content}] is a query; every atom needs one element")
        if symbol is None:
            continue
        # either both letters name the element, or the first alone
        possible_elements = {symbol[1].capitalize(), symbol[1][0].upper()}
        if not possible_elements & _elements():
            return _invalid(Reason.UNKNOWN_ELEMENT, f"[{content}] names no element")
    return _invalid(Reason.UNPARSABLE, _parse_error(messages))


@cache
def _elements() -> set[str]:
    """Returns the symbols of all elements."""
    from rdkit import Chem

    return {Chem.GetPeriodicTable().GetElementSymbol(number) for number in range(1, 119)}


def _parse_error(messages: list[str]) -> str:
    """Returns RDKit's first parse error, or its first message."""
    for message in messages:
        if "SMILES Parse Error" in message:
            return message.removeprefix("SMILES Parse Error: ")
    return messages[0] if messages else "not a SMILES"


def _invalid(reason: Reason, detail: str) -> InvalidCandidateError:
    """Returns the error, with a detail of at most 300 characters."""
    return InvalidCandidateError(reason, detail if len(detail) <= 300 else f"{detail[:297]}...")
