"""The verifiers `molecule.novelty` and `crystal.novelty`: compare candidates with reference files.

Molecules are compared by identity and by similarity, crystals by structure and by likeness.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.molecule import Molecule
from sciagent.domain.cost_and_budget import Cost
from sciagent.verification.verifier_contract import Refusal, StructureFile
from sciagent_verifiers.fast.compounds.reference_crystal_index import CrystalFile, CrystalIndex, crystal_index
from sciagent_verifiers.fast.molecule_index import Fingerprint, ReferenceIndex, index_of
from sciagent_verifiers.fast.reference_index_and_novelty_base import Neighbour, NoveltySettings, NoveltyVerifier
from sciagent_verifiers.verifier_bases import refusal_of_other_kind


class MoleculeNoveltySettings(NoveltySettings):
    """The reference files, the fingerprint and the largest allowed similarity."""

    references: tuple[StructureFile, ...] = Field(min_length=1, max_length=20, description="csv, smi or sdf, also .gz")
    radius: int = Field(2, ge=1, le=4, description="of the Morgan fingerprint; 2 is ECFP4")
    bits: Literal[1024, 2048, 4096] = Field(2048, description="Length of the fingerprint.")
    refuse_known: bool = Field(True, description="refuse what is in a reference file, by standard InChIKey")
    match: Literal["exact", "connectivity"] = Field(
        "exact", description="connectivity: known whatever the stereochemistry and isotopes"
    )
    max_similarity: float | None = Field(
        None, ge=0, le=1, description="refuse what is nearer than this to a reference (Tanimoto)"
    )


class MoleculeNovelty(NoveltyVerifier[Molecule, ReferenceIndex]):
    """Tanimoto similarity to the nearest molecule of reference files, and whether it is among them.

    Molecules are identical if their standard InChIKeys are, so tautomers are; a salt in a file is represented by its
    largest organic fragment.

    Source: Rogers and Hahn, J. Chem. Inf. Model. 50, 742 (2010); search: FPSim2, doi 10.5281/zenodo.3902922.
    """

    name = "molecule.novelty"
    version = "1"
    Settings = MoleculeNoveltySettings
    settings: MoleculeNoveltySettings
    preload = ("rdkit.Chem", "FPSim2", "tables", "sciagent_verifiers.fast.molecule_index")
    engines = ("FPSim2",)

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self.settings.radius, self.settings.bits)

    @property
    def compared(self) -> str:
        return self.fingerprint.label

    def index(self, file: StructureFile) -> ReferenceIndex:
        return index_of(file, self.fingerprint)

    def cost(self, candidate: Molecule) -> Cost:
        return Cost(core_seconds=5e-3)

    def known(self, index: ReferenceIndex, molecule: Molecule) -> str | None:
        return index.holds(molecule.inchikey, connectivity=self.settings.match == "connectivity")

    def neighbour(self, index: ReferenceIndex, molecule: Molecule) -> Neighbour:
        return index.nearest(molecule.mol)


class CrystalNoveltySettings(NoveltySettings):
    """The reference files, and the largest allowed likeness."""

    references: tuple[CrystalFile, ...] = Field(
        min_length=1, max_length=20, description="cif, extended xyz, json, jsonl or csv, also .gz"
    )
    refuse_known: bool = Field(
        True, description="Refuse what is in a reference file: by key, or by structure match at nearly equal volume."
    )
    max_similarity: float | None = Field(
        None, ge=0, le=1, description="refuse what is nearer than this to a reference (elements and their bonds)"
    )


class CrystalNovelty(NoveltyVerifier[Crystal, CrystalIndex]):
    """Likeness to the nearest crystal of reference files, and whether it is among them.

    Likeness is the Tanimoto similarity of counts of elements, coordination numbers and bonds; the volume does not
    count.
    """

    name = "crystal.novelty"
    version = "1"
    kind = "crystal"
    Settings = CrystalNoveltySettings
    settings: CrystalNoveltySettings
    preload = ("pymatgen.core", "spglib", "scipy.sparse", "sciagent_verifiers.fast.compounds.reference_crystal_index")
    engines = ("pymatgen-core", "spglib")
    compared = "of bonds"
    likeness = "likeness"

    def index(self, file: CrystalFile) -> CrystalIndex:
        return crystal_index(file)

    def accepts(self, candidate: Crystal) -> Refusal | None:
        return refusal_of_other_kind(candidate)

    def cost(self, candidate: Crystal) -> Cost:
        return Cost(core_seconds=0.05)

    def known(self, index: CrystalIndex, crystal: Crystal) -> str | None:
        return index.holds(crystal)

    def neighbour(self, index: CrystalIndex, crystal: Crystal) -> Neighbour:
        return index.nearest(crystal)
