"""Standardisation of proposed structures: the treatment of fragments, the protonation state at a pH, and the
stereoisomers and tautomers that become candidates of their own.

The state comes from dimorphite_dl, which looks up a mean pKa and its standard deviation for each acidic or basic group,
and treats groups as independent of each other.

Source: Ropp, Kaminsky, Yablonski, Durrant, J. Cheminform. 11, 14 (2019).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple

from sciagent.chemistry.isomers_and_tautomers import (
    Forms,
    groups_note,
    split_stereo_groups,
    stereoisomers,
    tautomers_of,
)
from sciagent.chemistry.molecule import REMEMBERED, Molecule, molecule_or_none, parse_molecule
from sciagent.chemistry.molecule_normal_form import normalise
from sciagent.chemistry.rdkit_messages import rdkit_messages
from sciagent.chemistry.subjects.base import Standardised
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.errors import InvalidCandidateError, UsageError

LIBRARY = "dimorphite_dl"
MISSING = f"needs {LIBRARY}; install it with: pip install 'sciagent[ph]'"
ISOMER = "isomer"
TAUTOMER = "tautomer"
"""How a candidate was made from its parent, the column `operation` of the table of parents."""
MOST_FORMS = 8
"""Largest number of stereoisomers and tautomers of a text that are candidates, unless the campaign file states it."""
MAX_LISTED = 3
"""Largest number of other states that a note lists."""
MAX_STATES = 128
"""Largest number of states of a molecule that are made."""


@dataclass(frozen=True)
class State:
    """The protonation state of a molecule at a pH."""

    molecule: Molecule
    """The dominant state, by the mean pKa of each group; the unchanged molecule if no state could be found."""
    others: tuple[str, ...] = ()
    """SMILES of the other states that are possible within one standard deviation of each pKa."""
    fault: str = ""
    """Why the state could not be found; empty if it was."""


class _Enumerated(NamedTuple):
    """The stereoisomers and tautomers of a molecule that become candidates."""

    molecules: Sequence[Molecule]
    operations: Mapping[str, str]
    """{key: ISOMER or TAUTOMER}; a stereoisomer of another tautomer is a TAUTOMER."""
    possible: int
    """Number of all stereoisomers and tautomers."""
    is_upper_bound: bool
    """Whether there may be fewer than `possible`."""


@dataclass(frozen=True)
class Standardisation:
    """The rules by which the text of a proposal becomes a candidate."""

    fragments: Literal["refuse", "parent"] = "refuse"
    """Treatment of a text of several fragments, the parameter `standardise` of `parse_molecule`."""
    ph: float | None = None
    """The pH at which the candidate has its dominant protonation state; None: hydrogens stay as they are."""
    stereo: Literal["enumerate"] | None = None
    """Whether each stereoisomer of a text with undefined stereo is a candidate; None: the text as it is written."""
    tautomers: Literal["enumerate"] | None = None
    """Whether each tautomer of a text is a candidate; None: the text as it is written."""
    most: int = MOST_FORMS
    """Largest number of stereoisomers and tautomers of a text that are candidates."""

    @classmethod
    def stated(cls, value: Any) -> Standardisation:
        """Returns the standardisation of the key `standardise` in a campaign file, or in the JSON form of one."""
        return cls(**value) if isinstance(value, Mapping) else cls(value)

    def apply(self, text: object, multiplicity: int | None = None) -> Standardised:
        """Returns the candidate of a text: a SMILES, which the enhanced stereo groups of a CXSMILES may follow.

        Raises InvalidCandidateError as `parse_molecule` does."""
        smiles, groups = split_stereo_groups(text)
        molecule = parse_molecule(smiles, standardise=self.fragments, multiplicity=multiplicity)
        notes = [note for note in (parent_note(smiles, molecule), groups_note(groups)) if note]
        row_note = "; ".join(notes)
        if self.ph is None:
            return Standardised(molecule, row_note, row_note=row_note)
        state = state_at(molecule, self.ph)
        if state.fault:
            kept = f"kept as {molecule.smiles} at pH {self.ph:g}: {state.fault}"
            return Standardised(molecule, "; ".join([*notes, kept]), state.fault, row_note=row_note)
        parts = notes
        if state.molecule != molecule:
            parts.append(f"protonated at pH {self.ph:g} from {molecule.smiles}")
        if state.others:
            listed = ", ".join(state.others[:MAX_LISTED])
            if len(state.others) > MAX_LISTED:
                listed += f" and {len(state.others) - MAX_LISTED} more"
            parts.append(f"also possible at pH {self.ph:g} within the spread of the pKa: {listed}")
        note = "; ".join(parts)
        return Standardised(state.molecule, note, is_ambiguous=bool(state.others), row_note=row_note)

    def forms(self, text: object, multiplicity: int | None = None) -> Sequence[Standardised]:
        """Returns the candidates of a text: its stereoisomers and tautomers where they are enumerated, at most `most`.

        The tautomer that the text draws comes first, then the others by RDKit's score; of each the stereoisomers.
        Raises InvalidCandidateError as `apply` does."""
        made = self.apply(text, multiplicity)
        whole = made.candidate
        if self.most_forms == 1 or not isinstance(whole, Molecule):
            return (made,)
        enumerated = self._enumerated(whole)
        if enumerated.possible == 1:
            return (made,)
        note = self._note_on_forms(whole, enumerated)
        note_of_candidate = "; ".join(part for part in (made.note, note) if part)
        note_of_row = "; ".join(part for part in (made.row_note, note) if part)
        forms = []
        for molecule in enumerated.molecules:
            is_whole = molecule == whole
            forms.append(
                replace(
                    made,
                    candidate=molecule,
                    note=note_of_candidate,
                    row_note=note_of_row,
                    parent=None if is_whole else whole,
                    operation="" if is_whole else enumerated.operations[molecule.key],
                    n_left_out=enumerated.possible - len(enumerated.molecules),
                )
            )
        return forms

    def _enumerated(self, whole: Molecule) -> _Enumerated:
        """Returns the first `most` stereoisomers and tautomers of a molecule."""
        tautomers = tautomers_of(whole.mol) if self.tautomers else Forms((whole.smiles,), 1, is_upper_bound=False)
        molecules: dict[str, Molecule] = {}  # by key
        operations: dict[str, str] = {}
        possible = 0
        is_upper_bound = tautomers.is_upper_bound
        for smiles in tautomers.smiles:
            tautomer = molecule_or_none(smiles, multiplicity=whole.multiplicity)
            if tautomer is None:
                continue
            isomers = stereoisomers(tautomer.mol) if self.stereo else Forms((smiles,), 1, is_upper_bound=False)
            possible += isomers.possible
            is_upper_bound = is_upper_bound or isomers.is_upper_bound
            for isomer in isomers.smiles[: self.most]:
                molecule = molecule_or_none(isomer, multiplicity=whole.multiplicity)
                if molecule is None or molecule.key in molecules:  # two drawings of one molecule
                    possible -= 1
                elif len(molecules) < self.most:
                    molecules[molecule.key] = molecule
                    operations[molecule.key] = ISOMER if smiles == whole.smiles else TAUTOMER
        return _Enumerated(list(molecules.values()), operations, possible, is_upper_bound)

    def _note_on_forms(self, whole: Molecule, enumerated: _Enumerated) -> str:
        """Returns a note such as `one of 16 stereoisomers of CC(F)C(F)Cl, of which 8 are candidates`."""
        if self.stereo and self.tautomers:
            kind = "stereoisomers and tautomers"
        else:
            kind = "stereoisomers" if self.stereo else "tautomers"
        bound = "up to " if enumerated.is_upper_bound else ""
        note = f"one of {bound}{enumerated.possible} {kind} of {whole.smiles}"
        n_kept = len(enumerated.molecules)
        return (
            note if n_kept == enumerated.possible else f"{note}, of which {n_kept} are candidates (most: {self.most})"
        )

    @property
    def most_forms(self) -> int:
        """The largest number of candidates of a text."""
        return self.most if self.stereo or self.tautomers else 1

    def of(self, candidate: Candidate) -> Candidate:
        """Returns the candidate that a proposal of this one becomes; itself if it would be refused."""
        if self.ph is None or not isinstance(candidate, Molecule):
            return candidate
        try:
            return self.apply(candidate.smiles, candidate.multiplicity).candidate
        except InvalidCandidateError:
            return candidate


COUNTER_IONS = {
    "Cl": "hydrogen chloride",
    "[Cl-]": "chloride",
    "Br": "hydrogen bromide",
    "[Br-]": "bromide",
    "I": "hydrogen iodide",
    "[I-]": "iodide",
    "O": "water",
    "[Li+]": "lithium",
    "[Na+]": "sodium",
    "[K+]": "potassium",
    "[Mg+2]": "magnesium",
    "[Ca+2]": "calcium",
    "[Zn+2]": "zinc",
    "O=S(=O)(O)O": "sulfuric acid",
    "O=P(O)(O)O": "phosphoric acid",
    "CS(=O)(=O)O": "methanesulfonic acid",
    "O=C(O)C(F)(F)F": "trifluoroacetic acid",
    "CC(=O)O": "acetic acid",
    "CCO": "ethanol",
    "CO": "methanol",
}
"""{canonical SMILES of a fragment: its name in notes}; other fragments are named by their SMILES."""


def parent_note(smiles: object, molecule: Molecule) -> str:
    """Returns what the molecule lacks of a SMILES, such as `hydrogen chloride removed, neutralised`; empty if nothing.

    molecule: what `parse_molecule` made of the SMILES."""
    if not isinstance(smiles, str) or not any(character in smiles for character in ".+-"):
        return ""
    with rdkit_messages():
        from rdkit import Chem

        whole: Any = Chem.MolFromSmiles(smiles.strip())
        if whole is None:
            return ""
        fragments = [str(Chem.MolToSmiles(fragment)) for fragment in Chem.GetMolFrags(normalise(whole), asMols=True)]
    kept = next((text for text in fragments if molecule_or_none(text, "parent") == molecule), None)
    if kept is None:
        return ""
    fragments.remove(kept)
    parts = []
    for fragment, n in Counter(fragments).items():
        count = f"{n} " if n > 1 else ""
        parts.append(f"{count}{COUNTER_IONS.get(fragment, fragment)} removed")
    same = molecule_or_none(kept)
    if same is not None and same != molecule:
        parts.append(f"neutralised from {kept}")
    return ", ".join(parts)


@lru_cache(maxsize=REMEMBERED)
def state_at(molecule: Molecule, ph: float) -> State:
    """Returns the protonation state at a pH. Tautomers stay as they are, and only protons on atoms are moved.

    Raises UsageError if the library is not installed.
    """
    # precision 0: by the mean pKa of each group alone
    likeliest, is_fallback = _protonated(molecule, ph, precision=0.0, most=1)
    if is_fallback or not likeliest:
        return State(molecule, fault=f"{LIBRARY} fails on it")
    dominant_smiles = likeliest[0]
    dominant = _same_but_for_protons(molecule, dominant_smiles)
    if dominant is None:
        return State(molecule, fault=f"{LIBRARY} makes another molecule of it, {dominant_smiles}")
    possible, _ = _protonated(molecule, ph, precision=1.0, most=MAX_STATES)
    others: dict[str, None] = {}  # a set that keeps the order
    for smiles in possible:
        state = _same_but_for_protons(molecule, smiles)
        if state is not None and state != dominant:
            others[state.smiles] = None
    return State(dominant, tuple(others))


def _protonated(molecule: Molecule, ph: float, *, precision: float, most: int) -> tuple[list[str], bool]:
    """Returns the SMILES of the library's states, and whether it gave up and returned its input.

    precision: number of standard deviations of the pKa. most: number of states to keep, the most probable ones.
    """
    try:
        from dimorphite_dl.protonate.run import Protonate
    except ImportError as error:
        raise UsageError(f"standardise: ph {MISSING}") from error
    with rdkit_messages():
        run = Protonate([molecule.smiles], ph_min=ph, ph_max=ph, precision=precision, max_variants=most)
        states = run.to_list()
    return states, bool(run.stats.fallback_used)


def _same_but_for_protons(molecule: Molecule, smiles: str) -> Molecule | None:
    """Returns the molecule of a state; None if it differs from `molecule` by more than protons on charged atoms."""
    state = molecule_or_none(smiles, multiplicity=molecule.multiplicity)
    if state is None or _neutral(state) != _neutral(molecule):
        return None
    return state


def _neutral(molecule: Molecule) -> tuple[str, int] | None:
    """Returns identity and charge without the protons that can be added or taken away; tautomers differ."""
    with rdkit_messages():
        neutral = _uncharger().uncharge(molecule.mol)
    from rdkit import Chem

    parsed = molecule_or_none(Chem.MolToSmiles(neutral), multiplicity=molecule.multiplicity)
    return None if parsed is None else (parsed.identity, parsed.charge)


@cache
def _uncharger() -> Any:
    from rdkit.Chem.MolStandardize import rdMolStandardize

    return rdMolStandardize.Uncharger(canonicalOrder=True, force=True)
