"""The edits of molecules, as an edit set."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

from rdkit import Chem

from sciagent.chemistry.editing import join_and_exchange_molecule_parts, mutate_and_crossover, named_edits
from sciagent.chemistry.editing.mutate_and_crossover import EditLimits, canonical
from sciagent.chemistry.editing.named_edits import NAMED_EDITS, Site
from sciagent.chemistry.molecule import Molecule
from sciagent.chemistry.subjects.base import EditSet
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash

MAX_LISTED_ATOMS = 100  # largest number of heavy atoms of a molecule whose sites are listed


class MoleculeEdits(EditSet):
    """Graph edits and crossovers of molecules."""

    named = NAMED_EDITS
    operations = mutate_and_crossover.OPERATIONS
    crossovers = mutate_and_crossover.CROSSOVERS
    # the moves that are common steps of synthesis keep 1; edits of single atoms and bonds begin with less
    shares = {
        "chain crossover": 4.0,
        "add substituent to a saturated atom": 0.5,
        "append atom": 0.5,
        "insert atom": 0.5,
        "take out atom": 0.5,
        "change element": 0.5,
        "change bond order": 0.5,
        "open ring": 0.25,
        "close ring": 0.5,
    }

    @cached_property
    def tables_hash(self) -> str:
        tables = {name: value for name, value in vars(join_and_exchange_molecule_parts).items() if name.isupper()}
        return content_hash(tables)

    def limits(self, checks: Sequence[Any] = (), size: int | None = None) -> EditLimits:
        """Returns the limits of the last rung of checks, but with the smallest maximum size of all rungs of checks."""
        most = EditLimits.max_heavy_atoms if size is None else size
        if not checks:
            return EditLimits(max_heavy_atoms=most)
        last = checks[-1]
        max_ring_size = EditLimits.max_ring_size
        if last.max_ring_size:
            max_ring_size = min(max_ring_size, last.max_ring_size)
        return EditLimits(
            elements=tuple(last.elements),
            min_heavy_atoms=last.min_heavy_atoms,
            max_heavy_atoms=min(most, *(each.max_heavy_atoms for each in checks)),
            max_rings=last.max_rings,
            min_ring_size=last.min_ring_size,
            max_ring_size=max_ring_size,
            charges=tuple(last.charges),
            defined_stereo=last.undefined_stereo == "refuse",
            forbidden=tuple(last.forbid_smarts),
            required=tuple(last.require_smarts),
        )

    def too_large(self, candidate: Candidate, limits: EditLimits) -> str | None:
        assert isinstance(candidate, Molecule)
        heavy = candidate.heavy_atoms
        most = limits.max_heavy_atoms
        return None if heavy <= most else f"{heavy} heavy atoms are too many to edit; the limit is {most}"

    def mutate(self, text: str, rng: random.Random, operation: str, limits: EditLimits) -> str | None:
        child_and_operation = mutate_and_crossover.mutate(text, rng, operations=(operation,), limits=limits)
        if child_and_operation is None:
            return None
        child, _ = child_and_operation
        return child

    def cross(
        self, parents: tuple[str, str], rng: random.Random, limits: EditLimits, operation: str | None = None
    ) -> tuple[str, str] | None:
        operations = mutate_and_crossover.CROSSOVERS if operation is None else (operation,)
        return mutate_and_crossover.crossover(*parents, rng, operations=operations, limits=limits)

    def group(self, text: str) -> str:
        return scaffold_of(text)

    def sites(self, text: str) -> Sequence[Site]:
        return named_edits.sites(text)

    def described_sites(self, candidate: Candidate) -> list[str]:
        assert isinstance(candidate, Molecule)
        if candidate.heavy_atoms > MAX_LISTED_ATOMS:
            return []
        sites = named_edits.sites(candidate.smiles)
        if not sites:
            return []
        return [f"atoms: {_numbered(candidate.smiles)}", "sites, number name @atoms:", *_lines_by_edits(sites)]

    def choices(
        self, text: str, edit: str, what: str | None = None, where: int | None = None
    ) -> list[tuple[str, Site]]:
        return named_edits.choices(text, edit, what, where)

    def children(self, text: str, edit: str, what: str | None, where: int, limits: EditLimits) -> list[str]:
        return named_edits.children(text, edit, what, where, limits)


@lru_cache(maxsize=20_000)
def scaffold_of(smiles: str) -> str:
    """Returns the Murcko scaffold as SMILES, without stereochemistry. Molecules without rings are grouped by size."""
    from rdkit.Chem.Scaffolds import MurckoScaffold

    mol: Any = Chem.MolFromSmiles(smiles)
    if mol is None:
        return ""
    Chem.RemoveStereochemistry(mol)
    murcko: Any = MurckoScaffold
    scaffold = Chem.MolToSmiles(murcko.GetScaffoldForMol(mol))
    return scaffold or f"{mol.GetNumHeavyAtoms()} atoms without a ring"


def _numbered(smiles: str) -> str:
    """Returns the SMILES with atom numbers, from 1."""
    mol = canonical(smiles)
    for atom in mol.GetAtoms():
        atom.SetAtomMapNum(atom.GetIdx() + 1)
    return str(Chem.MolToSmiles(mol, canonical=False))


def _lines_by_edits(sites: Sequence[Site]) -> list[str]:
    """Returns a line for each set of edits, with the sites that they fit."""
    sites_by_edits: dict[str, list[str]] = {}
    for site in sites:
        atoms = site.places[0]
        if site.kind == "substituent":
            atoms = atoms[:1]  # the atom that bears it
        numbers = "-".join(str(atom + 1) for atom in atoms)
        text = f"{site.number} {site.name} @{numbers}"
        if len(site.places) > 1:  # places that are equal by symmetry
            text += f" x{len(site.places)}"
        fitting_edits = ", ".join(edit.name for edit in NAMED_EDITS.values() if edit.fits(site))
        sites_by_edits.setdefault(fitting_edits, []).append(text)
    return [f"{fitting_edits}: {'; '.join(texts)}" for fitting_edits, texts in sites_by_edits.items()]
