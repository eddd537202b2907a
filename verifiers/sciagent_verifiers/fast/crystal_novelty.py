"""The verifier `crystal.novelty`: compares a crystal with reference files by structure and by likeness."""

from __future__ import annotations

from functools import cached_property

from pydantic import Field, model_validator

from sciagent.chemistry.crystal import Crystal
from sciagent.domain.cost import Cost
from sciagent.domain.outcomes import Reason
from sciagent.domain.properties import NEAREST_SIMILARITY, Level, PropertyAtLevel, at
from sciagent.domain.tiers import Tier
from sciagent.verification.contract import Context, Finding, Refusal, Settings
from sciagent_verifiers.crystal_verifier import CrystalVerifier, no_crystal, refused
from sciagent_verifiers.fast.compounds.crystal_index import CrystalFile, CrystalIndex, crystal_index

LONGEST_LEVEL = 180  # characters; the longest method of a level


class CrystalNoveltySettings(Settings):
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

    @model_validator(mode="after")
    def _different(self) -> CrystalNoveltySettings:
        if len({reference.name for reference in self.references}) < len(self.references):
            raise ValueError("two references have one name; give them different ones (name:)")
        return self


class CrystalNovelty(CrystalVerifier):
    """Likeness to the nearest crystal of reference files, and whether it is among them.

    The values are exact for their definition (uncertainty 0). Likeness is the Tanimoto similarity of counts of
    elements, coordination numbers and bonds; the volume does not count. A reference file is indexed once, when a
    campaign first names it; a query then takes milliseconds. Novelty against the ledger is not measured here, since it
    changes with time; it is recorded with each proposal.
    """

    name = "crystal.novelty"
    version = "1"
    tier = Tier.FAST
    Settings = CrystalNoveltySettings
    settings: CrystalNoveltySettings
    preload = ("pymatgen.core", "spglib", "scipy.sparse", "sciagent_verifiers.fast.compounds.crystal_index")
    engines = ("pymatgen-core", "spglib")

    @cached_property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        names = "+".join(sorted(reference.name for reference in self.settings.references))
        if len(names) > LONGEST_LEVEL - 40:
            names = f"{len(self.settings.references)} sets {self.settings_hash[:12]}"
        return at(Level(f"Tanimoto of bonds to {names}"), NEAREST_SIMILARITY)

    @cached_property
    def _indexes(self) -> tuple[CrystalIndex, ...]:
        files = sorted(self.settings.references, key=lambda reference: reference.name)
        return tuple(crystal_index(reference) for reference in files)

    def prepare(self) -> None:
        for index in self._indexes:
            index.build()

    def attach(self) -> None:
        for index in self._indexes:
            index.attach()

    def accepts(self, candidate: Crystal) -> Refusal | None:
        return no_crystal(candidate)

    def cost(self, candidate: Crystal) -> Cost:
        return Cost(core_seconds=0.05)

    def finding(self, crystal: Crystal, context: Context) -> Finding:
        if self.settings.refuse_known:
            for index in self._indexes:
                if (called := index.holds(crystal)) is not None:
                    return refused(crystal, Refusal(Reason.NOT_NOVEL, f"{called} of {index.file.name}"))
        neighbours = [(index.nearest(crystal), index.file.name) for index in self._indexes]
        nearest, where = max(neighbours, key=lambda neighbour: neighbour[0].similarity)
        limit = self.settings.max_similarity
        if limit is not None and nearest.similarity > limit:
            called = nearest.name or nearest.text
            detail = f"likeness {nearest.similarity:.2f} to {called} of {where}; at most {limit:g}"
            return refused(crystal, Refusal(Reason.NOT_NOVEL, detail))
        diagnostics = {"nearest": nearest.text, "nearest_name": nearest.name, "reference": where}
        return self.exact(crystal, {NEAREST_SIMILARITY: nearest.similarity}, diagnostics)
