"""The comparison of candidates with reference files, which is the same for molecules and for crystals."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import Field, model_validator

from sciagent.domain.candidates import Candidate
from sciagent.domain.outcomes import Reason
from sciagent.domain.properties import NEAREST_SIMILARITY, Level, PropertyAtLevel, at
from sciagent.domain.tiers import Tier
from sciagent.verification.contract import Context, Finding, Refusal, Settings
from sciagent_verifiers.fast.reference_folder import ReferenceFolder
from sciagent_verifiers.single_verifier import SingleVerifier, refused

C = TypeVar("C", bound=Candidate)
Index = TypeVar("Index", bound=ReferenceFolder)
LONGEST_NAMES = 140  # characters; longer lists of files are named by the hash of the settings


@dataclass(frozen=True)
class Neighbour:
    """The nearest candidate of a reference file."""

    similarity: float
    """Tanimoto similarity, 0 to 1."""
    text: str
    """The structure: of a molecule as written in the file, of a crystal its formula and space group."""
    name: str
    """The name in the file."""


class NoveltySettings(Settings):
    """The reference files, and what is refused: what they hold, and what is too near to them."""

    references: tuple[Any, ...] = Field(min_length=1, max_length=20, description="csv, also .gz")
    refuse_known: bool = Field(True, description="refuse what is in a reference file")
    max_similarity: float | None = Field(None, ge=0, le=1, description="refuse what is nearer than this to a reference")

    @model_validator(mode="after")
    def _different(self) -> NoveltySettings:
        if len({reference.name for reference in self.references}) < len(self.references):
            raise ValueError("two references have one name; give them different ones (name:)")
        return self


class NoveltyVerifier(SingleVerifier[C], Generic[C, Index]):
    """Similarity to the nearest candidate of reference files, and whether the candidate is among them.

    The values are exact for their definition (uncertainty 0). A reference file is indexed once, when a campaign first
    names it; a query then takes milliseconds. Novelty against the ledger is not measured here, since it changes with
    time; it is recorded with each proposal.
    """

    tier = Tier.FAST
    settings: NoveltySettings
    likeness: ClassVar[str] = "similarity"
    """The word for similarity in a refusal."""

    @property
    @abstractmethod
    def compared(self) -> str:
        """The things that are compared, in the words of the level."""

    @abstractmethod
    def index(self, file: Any) -> Index:
        """Returns the index of a reference file."""

    @abstractmethod
    def known(self, index: Index, candidate: C) -> str | None:
        """Returns the name of the candidate in a reference file, or None if the file does not hold it."""

    @abstractmethod
    def neighbour(self, index: Index, candidate: C) -> Neighbour:
        """Returns the nearest candidate of a reference file."""

    @cached_property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        names = "+".join(sorted(reference.name for reference in self.settings.references))
        if len(names) > LONGEST_NAMES:
            names = f"{len(self.settings.references)} sets {self.settings_hash[:12]}"
        return at(Level(f"Tanimoto {self.compared} to {names}"), NEAREST_SIMILARITY)

    @cached_property
    def _indexes(self) -> tuple[Index, ...]:
        files = sorted(self.settings.references, key=lambda reference: reference.name)
        return tuple(self.index(file) for file in files)

    def prepare(self) -> None:
        for index in self._indexes:
            index.build()

    def attach(self) -> None:
        for index in self._indexes:
            index.attach()

    def finding(self, candidate: C, context: Context) -> Finding:
        if self.settings.refuse_known:
            for index in self._indexes:
                if (called := self.known(index, candidate)) is not None:
                    return refused(candidate, Refusal(Reason.NOT_NOVEL, f"{called} of {index.file.name}"))
        neighbours = [(self.neighbour(index, candidate), index.file.name) for index in self._indexes]
        nearest, where = max(neighbours, key=lambda neighbour: neighbour[0].similarity)
        limit = self.settings.max_similarity
        if limit is not None and nearest.similarity > limit:
            called = nearest.name or nearest.text
            detail = f"{self.likeness} {nearest.similarity:.2f} to {called} of {where}; at most {limit:g}"
            return refused(candidate, Refusal(Reason.NOT_NOVEL, detail))
        diagnostics = {"nearest": nearest.text, "nearest_name": nearest.name, "reference": where}
        return self.exact(candidate, {NEAREST_SIMILARITY: nearest.similarity}, diagnostics)
