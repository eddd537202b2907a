"""Compares candidates with reference files, in the same way for molecules and for crystals.

The index of a reference file is kept in a folder of the cache. The folder is complete or absent: it is built under a
lock and another name, then renamed. Its name is the hash of all that the index depends on, such as the file's content
and the versions of libraries.
"""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import Field, model_validator

from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.domain.properties_and_levels import NEAREST_SIMILARITY, Level, PropertyAtLevel, at
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.errors import InputFileError
from sciagent.inputs.environment_variables import cache_folder
from sciagent.verification.verifier_contract import (
    Context,
    Finding,
    Outcome,
    Reason,
    ReferenceFile,
    Refusal,
    Settings,
    SimulatorError,
)
from sciagent_verifiers.verifier_bases import SingleVerifier, refused

LOCK_SECONDS = 3600.0  # longest wait for another process that builds the same index
log = logging.getLogger(__name__)


class ReferenceFolder(ABC):
    """The folder with the index of a reference file. depends_on: all that its content depends on."""

    counted: ClassVar[str]
    """The things that `about` counts, such as `molecules`."""

    def __init__(self, file: ReferenceFile, depends_on: Mapping[str, Any]) -> None:
        self.file = file
        self.folder = cache_folder() / "references" / content_hash(depends_on)[:32]

    @abstractmethod
    def _write(self, path: Path, folder: Path) -> dict[str, int]:
        """Writes the content of the folder from the file. Returns the counts of `counted` and of `unreadable` records.
        Raises InputFileError."""

    @abstractmethod
    def attach(self) -> None:
        """Loads what queries need, if it is on disk, so that forked processes share it."""

    @property
    def is_built(self) -> bool:
        return (self.folder / "about.json").is_file()

    def build(self) -> None:
        """Writes the index if it is missing. Concurrent builders wait for the first.

        Raises SimulatorError bad_environment (reference_file) if the file is gone, changed, or holds no candidate.
        """
        if self.is_built:
            return
        from filelock import FileLock, Timeout

        try:
            self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with FileLock(f"{self.folder}.lock", timeout=LOCK_SECONDS):
                if not self.is_built:
                    self._build()
        except Timeout as error:
            detail = f"somebody has been indexing {self.file.name} for more than an hour; see {self.folder}.lock"
            raise _unusable(detail) from error
        except OSError as error:
            detail = f"the index of {self.file.name} cannot be written to {self.folder.parent}: {error.strerror}"
            raise _unusable(detail) from error

    def _build(self) -> None:
        """Writes the index under another name and renames it. Raises SimulatorError as `build` does."""
        path = self.file.check()
        log.info("indexing %s, once", self.file.name)
        for leftover in self.folder.parent.glob(f"{self.folder.name}.*.partial"):  # of a killed process
            shutil.rmtree(leftover, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(prefix=f"{self.folder.name}.", suffix=".partial", dir=self.folder.parent))
        try:
            about = self._write(path, partial)
            if not about[self.counted]:
                noun = self.counted.removesuffix("s")
                detail = f"{self.file.name} holds no {noun} that can be read ({about['unreadable']} records)"
                raise _unusable(detail)
            (partial / "about.json").write_text(json.dumps(about))
            shutil.rmtree(self.folder, ignore_errors=True)  # incomplete: it has no about.json
            partial.rename(self.folder)
        except InputFileError as error:
            raise _unusable(str(error)) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    @cached_property
    def about(self) -> Mapping[str, int]:
        """The counts of `counted` in the index and of `unreadable` records. Builds a missing index first."""
        self.build()
        return dict[str, int](json.loads((self.folder / "about.json").read_text()))


def _unusable(detail: str) -> SimulatorError:
    return SimulatorError(Outcome.BAD_ENVIRONMENT, Reason.REFERENCE_FILE, detail)


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
                known_name = self.known(index, candidate)
                if known_name is not None:
                    return refused(candidate, Refusal(Reason.NOT_NOVEL, f"{known_name} of {index.file.name}"))
        neighbours = [(self.neighbour(index, candidate), index.file.name) for index in self._indexes]
        nearest, where = max(neighbours, key=lambda neighbour: neighbour[0].similarity)
        limit = self.settings.max_similarity
        if limit is not None and nearest.similarity > limit:
            nearest_name = nearest.name or nearest.text
            detail = f"{self.likeness} {nearest.similarity:.2f} to {nearest_name} of {where}; at most {limit:g}"
            return refused(candidate, Refusal(Reason.NOT_NOVEL, detail))
        diagnostics = {"nearest": nearest.text, "nearest_name": nearest.name, "reference": where}
        return self.exact_finding(candidate, {NEAREST_SIMILARITY: nearest.similarity}, diagnostics)
