"""Standardisation of proposed structures: the treatment of fragments, and the protonation state at a pH.

The state comes from dimorphite_dl, which looks up a mean pKa and its standard deviation for each acidic or basic group,
and treats groups as independent of each other.

Source: Ropp, Kaminsky, Yablonski, Durrant, J. Cheminform. 11, 14 (2019).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal

from sciagent.chemistry.molecule import REMEMBERED, Molecule, molecule_or_none, parse_molecule
from sciagent.chemistry.rdkit_messages import rdkit_messages
from sciagent.chemistry.subjects.base import Standardised
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.errors import InvalidCandidateError, UsageError

LIBRARY = "dimorphite_dl"
MISSING = f"needs {LIBRARY}; install it with: pip install 'sciagent[ph]'"
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


@dataclass(frozen=True)
class Standardisation:
    """The rules by which the text of a proposal becomes a candidate."""

    fragments: Literal["refuse", "parent"] = "refuse"
    """Treatment of a text of several fragments, the parameter `standardise` of `parse_molecule`."""
    ph: float | None = None
    """The pH at which the candidate has its dominant protonation state; None: hydrogens stay as they are."""

    @classmethod
    def stated(cls, value: Any) -> Standardisation:
        """Returns the standardisation of the key `standardise` in a campaign file, or in the JSON form of one."""
        return cls(**value) if isinstance(value, Mapping) else cls(value)

    def apply(self, text: object, multiplicity: int | None = None) -> Standardised:
        """Returns the candidate of a text. Raises InvalidCandidateError as `parse_molecule` does."""
        molecule = parse_molecule(text, standardise=self.fragments, multiplicity=multiplicity)
        if self.ph is None:
            return Standardised(molecule)
        state = state_at(molecule, self.ph)
        if state.fault:
            return Standardised(molecule, f"kept as {molecule.smiles} at pH {self.ph:g}: {state.fault}", state.fault)
        parts = []
        if state.molecule != molecule:
            parts.append(f"protonated at pH {self.ph:g} from {molecule.smiles}")
        if state.others:
            listed = ", ".join(state.others[:MAX_LISTED])
            if len(state.others) > MAX_LISTED:
                listed += f" and {len(state.others) - MAX_LISTED} more"
            parts.append(f"also possible at pH {self.ph:g} within the spread of the pKa: {listed}")
        return Standardised(state.molecule, "; ".join(parts), is_ambiguous=bool(state.others))

    def of(self, candidate: Candidate) -> Candidate:
        """Returns the candidate that a proposal of this one becomes; itself if it would be refused."""
        if self.ph is None or not isinstance(candidate, Molecule):
            return candidate
        try:
            return self.apply(candidate.smiles, candidate.multiplicity).candidate
        except InvalidCandidateError:
            return candidate


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
