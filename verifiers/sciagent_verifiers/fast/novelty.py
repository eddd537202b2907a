"""The verifier `molecule.novelty`: compares a molecule with reference files by identity and by similarity."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from pydantic import Field, model_validator

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.cost import Cost
from sciagent.domain.outcomes import Reason
from sciagent.domain.properties import NEAREST_SIMILARITY, Level, PropertyAtLevel, at
from sciagent.domain.tiers import Tier
from sciagent.verification.contract import Context, Finding, Refusal, Settings, StructureFile
from sciagent_verifiers.fast.reference_index import Fingerprint, ReferenceIndex, index_of
from sciagent_verifiers.molecule_verifier import MoleculeVerifier, refused

LONGEST_LEVEL = 180  # characters; the longest method of a level


class MoleculeNoveltySettings(Settings):
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

    @model_validator(mode="after")
    def _different(self) -> MoleculeNoveltySettings:
        if len({reference.name for reference in self.references}) < len(self.references):
            raise ValueError("two references have one name; give them different ones (name:)")
        return self


class MoleculeNovelty(MoleculeVerifier):
    """Tanimoto similarity to the nearest molecule of reference files, and whether it is among them.

    The values are exact for their definition (uncertainty 0). A reference file is indexed once, when a campaign first
    names it; a query then takes milliseconds. Molecules are identical if their standard InChIKeys are, so tautomers
    are; a salt in a file is represented by its largest organic fragment. Novelty against the ledger is not measured
    here, since it changes with time; it is recorded with each proposal.

    Source: Rogers and Hahn, J. Chem. Inf. Model. 50, 742 (2010); search: FPSim2, doi 10.5281/zenodo.3902922.
    """

    name = "molecule.novelty"
    version = "1"
    tier = Tier.FAST
    Settings = MoleculeNoveltySettings
    settings: MoleculeNoveltySettings
    preload = ("rdkit.Chem", "FPSim2", "tables", "sciagent_verifiers.fast.reference_index")
    engines = ("FPSim2",)

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self.settings.radius, self.settings.bits)

    @cached_property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        names = "+".join(sorted(reference.name for reference in self.settings.references))
        if len(names) > LONGEST_LEVEL - 40:
            names = f"{len(self.settings.references)} sets {self.settings_hash[:12]}"
        return at(Level(f"Tanimoto {self.fingerprint.label} to {names}"), NEAREST_SIMILARITY)

    @cached_property
    def _indexes(self) -> tuple[ReferenceIndex, ...]:
        files = sorted(self.settings.references, key=lambda reference: reference.name)
        return tuple(index_of(reference, self.fingerprint) for reference in files)

    def prepare(self) -> None:
        for index in self._indexes:
            index.build()

    def attach(self) -> None:
        for index in self._indexes:
            index.attach()

    def cost(self, candidate: Molecule) -> Cost:
        return Cost(core_seconds=5e-3)

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        if self.settings.refuse_known:
            for index in self._indexes:
                called = index.holds(molecule.inchikey, connectivity=self.settings.match == "connectivity")
                if called is not None:
                    return refused(molecule, Refusal(Reason.NOT_NOVEL, f"{called} of {index.file.name}"))
        neighbours = [(index.nearest(molecule.mol), index.file.name) for index in self._indexes]
        nearest, where = max(neighbours, key=lambda neighbour: neighbour[0].similarity)
        limit = self.settings.max_similarity
        if limit is not None and nearest.similarity > limit:
            called = nearest.name or nearest.text
            detail = f"similarity {nearest.similarity:.2f} to {called} of {where}; at most {limit:g}"
            return refused(molecule, Refusal(Reason.NOT_NOVEL, detail))
        diagnostics = {"nearest": nearest.text, "nearest_name": nearest.name, "reference": where}
        return self.exact(molecule, {NEAREST_SIMILARITY: nearest.similarity}, diagnostics)
