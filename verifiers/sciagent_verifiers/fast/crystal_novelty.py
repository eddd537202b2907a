"""The verifier `crystal.novelty`: compares a crystal with reference files by structure and by likeness."""

from __future__ import annotations

from pydantic import Field

from sciagent.chemistry.crystal import Crystal
from sciagent.domain.cost import Cost
from sciagent.verification.contract import Refusal
from sciagent_verifiers.crystal_verifier import no_crystal
from sciagent_verifiers.fast.compounds.crystal_index import CrystalFile, CrystalIndex, crystal_index
from sciagent_verifiers.fast.reference_novelty import Neighbour, NoveltySettings, NoveltyVerifier


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
    preload = ("pymatgen.core", "spglib", "scipy.sparse", "sciagent_verifiers.fast.compounds.crystal_index")
    engines = ("pymatgen-core", "spglib")
    compared = "of bonds"
    likeness = "likeness"

    def index(self, file: CrystalFile) -> CrystalIndex:
        return crystal_index(file)

    def accepts(self, candidate: Crystal) -> Refusal | None:
        return no_crystal(candidate)

    def cost(self, candidate: Crystal) -> Cost:
        return Cost(core_seconds=0.05)

    def known(self, index: CrystalIndex, crystal: Crystal) -> str | None:
        return index.holds(crystal)

    def neighbour(self, index: CrystalIndex, crystal: Crystal) -> Neighbour:
        return index.nearest(crystal)
