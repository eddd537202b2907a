"""Words as candidates: lower-case letters, edited letter by letter; alike by the pairs of letters that they share."""

from __future__ import annotations

import hashlib
import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sciagent.chemistry.fingerprints_and_families import Features, StructureFingerprint
from sciagent.chemistry.molecule_files import StructureRecord
from sciagent.chemistry.subjects.base import CandidateColumns, EditSet, LibraryVersions, Standardised, Subject, Words
from sciagent.domain.candidate_and_its_names_in_files import candidate_key
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.domain.properties_and_levels import Property
from sciagent.errors import InvalidCandidateError
from sciagent.verification.verifier_contract import (
    Context,
    Cost,
    Finding,
    Level,
    Measured,
    Outcome,
    PropertyAtLevel,
    Quantity,
    Settings,
    Tier,
    Verifier,
    at,
)

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOWELS = Property("vowels", ("1",), "Number of vowels.")
PROPERTIES = (VOWELS,)


@dataclass(frozen=True)
class Word:
    """A word."""

    text: str
    charge: int = 0
    multiplicity: int = 1

    kind = "word"
    inchikey = None

    @property
    def identity(self) -> str:
        return f"word/{self.text}"

    @property
    def key(self) -> str:
        return candidate_key(self.kind, self.identity, 0, 1)

    @property
    def formula(self) -> str:
        return "".join(sorted(self.text))

    @property
    def n_atoms(self) -> int:
        return len(self.text)

    def payload(self) -> Mapping[str, Any]:
        return {"text": self.text}


class WordReading:
    def apply(self, text: object, multiplicity: int | None = None) -> Standardised:
        if not isinstance(text, str) or not 0 < len(text) <= 30 or set(text) - set(LETTERS):
            raise InvalidCandidateError(Reason.UNPARSABLE, "a word has 1 to 30 letters from a to z")
        return Standardised(Word(text))

    def forms(self, text: object, multiplicity: int | None = None) -> list[Standardised]:
        return [self.apply(text, multiplicity)]

    @property
    def most_forms(self) -> int:
        return 1

    def of(self, candidate: Any) -> Any:
        return candidate


@dataclass(frozen=True)
class Letter:
    """The site of an edit."""

    number: int
    name: str
    kind: str = "letter"


@dataclass(frozen=True)
class Change:
    """An edit by name."""

    name: str
    says: str
    whats: tuple[str, ...] = tuple(LETTERS)

    def fits(self, site: Letter) -> bool:
        return True


class WordEdits(EditSet):
    named = {edit.name: edit for edit in (Change("replace", "another letter"), Change("append", "a letter behind it"))}
    operations = ("replace", "append")
    tables_hash = hashlib.sha256(LETTERS.encode()).hexdigest()

    def limits(self, checks: Sequence[Any] = (), size: int | None = None) -> int:
        return 12 if size is None else min(size, 12)

    def too_large(self, candidate: Any, limits: int) -> str | None:
        return None if candidate.n_atoms <= limits else f"{candidate.n_atoms} letters are too many to edit"

    def mutate(self, text: str, rng: random.Random, operation: str, limits: int) -> str | None:
        site = rng.randint(1, len(text))
        found = self.children(text, operation, rng.choice(LETTERS), site, limits)
        return found[0] if found else None

    def group(self, text: str) -> str:
        return text[0]

    def sites(self, text: str) -> Sequence[Letter]:
        return [Letter(number, letter) for number, letter in enumerate(text, 1)]

    def described_sites(self, candidate: Any) -> list[str]:
        return [" ".join(f"{site.number} {site.name}" for site in self.sites(candidate.text))]

    def choices(self, text: str, edit: str, what: str | None = None, where: int | None = None) -> list[Any]:
        sites = [site for site in self.sites(text) if where in (None, site.number)]
        return [(letter, site) for site in sites for letter in ([what] if what else LETTERS)]

    def children(self, text: str, edit: str, what: str | None, where: int, limits: int) -> list[str]:
        end = where - (edit == "replace")
        made = [text[:end] + letter + text[where:] for letter in ([what] if what else LETTERS)]
        return [child for child in made if child != text and len(child) <= limits]


class WordSubject(Subject):
    name = "word"
    words = Words(
        one="word",
        many="words",
        notation="spelling",
        proposal="one word",
        example="lepton",
        rationale="it has more vowels",
        property="vowels",
        remark="short words had few vowels",
        family="first letter",
        no_family="no letter",
        column="word",
        files="csv",
    )
    formats = (".csv",)
    fingerprint = "pairs"

    def versions(self) -> LibraryVersions:
        return LibraryVersions("1", "none")

    def reading(self, stated: Any = "refuse") -> WordReading:
        if stated != "refuse":
            raise ValueError("words are taken as they are")
        return WordReading()

    def restored(self, payload: Mapping[str, Any]) -> Word:
        return WordReading().apply(payload.get("text")).candidate  # type: ignore[return-value]

    def from_row(self, columns: CandidateColumns, payload: Mapping[str, Any] | None, is_ours: bool) -> Word:
        return Word(columns.text)

    def record(self, candidate: Any) -> Mapping[str, Any]:
        return asdict(candidate)

    def from_record(self, record: Mapping[str, Any]) -> Word:
        return Word(**record)

    def records(
        self, path: Path, column: str | None = None, skip: int = 0, keep: Sequence[str] | None = None
    ) -> Iterator[StructureRecord]:
        for number, line in enumerate(path.read_text(encoding="utf-8").split()[1:]):
            if number >= skip:
                yield StructureRecord(number, line)

    def features(self, notation: str) -> Features:
        first = notation[:1]
        return Features(first, hashlib.sha256(first.encode()).hexdigest(), _pairs(notation))

    def similarities(self, candidate: Features, others: Sequence[Features]) -> Sequence[float]:
        return [
            (candidate.bits & other.bits).total() / max((candidate.bits | other.bits).total(), 1) for other in others
        ]

    def structure(self, notation: str) -> StructureFingerprint:
        counts = {int.from_bytes(pair.encode()): n for pair, n in _pairs(notation).items()}
        return StructureFingerprint(counts, (math.log(len(notation)),))

    def drawing(self, notation: str, width: int = 260, height: int = 190) -> str:
        return f'<svg viewBox="0 0 {width} {height}"><text y="20">{notation}</text></svg>'

    @property
    def edits(self) -> WordEdits:
        return WordEdits()


def _pairs(text: str) -> Counter[str]:
    return Counter(a + b for a, b in zip(f" {text}", f"{text} ", strict=True))


class VowelSettings(Settings):
    seconds: float = 0.1
    """Declared core-seconds of a count."""


class Vowels(Verifier[Word]):
    """The number of vowels of a word."""

    name = "word.vowels"
    version = "1"
    tier = Tier.SIMULATION
    kind = "word"
    Settings = VowelSettings

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(Level("counting"), VOWELS)

    def cost(self, candidate: Word) -> Cost:
        return Cost(core_seconds=self.settings.seconds)

    def verify(self, batch: Sequence[Word], context: Context) -> Iterator[Finding]:
        for word in batch:
            n = sum(letter in "aeiou" for letter in word.text)
            yield Finding(
                word.key, Outcome.OK, (Measured("vowels", self.measures[0].level, Quantity(float(n), "1", 0.0)),)
            )
