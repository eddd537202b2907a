"""The contract of a subject: all that the platform asks about one kind of candidate.

Candidates travel as keys, and as *notations*: texts that `Reading.apply` reads back to the same candidate. A molecule's
notation is its SMILES, a crystal's one line of JSON. `Candidate.text` is for people, and need not be readable.

The edits of a subject are the moves of a search, and the edits that a model calls by name.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from sciagent.domain.candidate_and_its_names_in_files import Candidate

if TYPE_CHECKING:
    from sciagent.chemistry.fingerprints_and_families import Features, StructureFingerprint
    from sciagent.chemistry.molecule_files import StructureRecord


@dataclass(frozen=True)
class Words:
    """The words for a kind of candidate in messages, prompts and tables."""

    one: str
    """A single candidate: molecule."""
    many: str
    notation: str
    """Name of the text that a person types for a candidate, such as SMILES."""
    proposal: str
    """The unit that a model may propose, in a few words, such as "one molecule, one fragment"."""
    example: str
    """A notation for the examples in messages on how to call a tool."""
    rationale: str
    """A reason to propose `example`, for such a message."""
    property: str
    """A property that a model may predict of `example`, for such a message."""
    remark: str
    """A remark for later episodes, for such a message."""
    family: str
    """Name of the part that candidates of a family share, such as "ring skeleton"."""
    no_family: str
    """The words for candidates without such a part: no ring."""
    column: str
    """Default column of a table with notations."""
    files: str
    """Formats of files, in words: csv, smi or sdf."""
    repeats: str = "repeated runs"
    """The ± of a value is stated over repeated runs; this names what they repeat, such as "conformer searches"."""


@dataclass(frozen=True)
class Standardised:
    """A candidate, and how it was made from the text."""

    candidate: Candidate
    note: str = ""
    """The origin of the candidate, such as `protonated at pH 7.4 from CC(=O)O`, and the other forms that are possible;
    empty if nothing was changed and no other form is possible."""
    fault: str = ""
    """The reason why the wanted form, such as a protonation state, was not found; empty if there is no fault."""
    is_ambiguous: bool = False
    """Whether other forms are as likely."""
    row_note: str = ""
    """In which way the candidate differs from the substance that the text names, such as `hydrogen chloride removed`;
    empty if it does not. It stays with the names of the row of a file, under STANDARDISED."""
    parent: Candidate | None = None
    """The candidate of which this one is a stereoisomer or tautomer, if the campaign enumerates them."""
    operation: str = ""
    """How the candidate was made from `parent`: `isomer` or `tautomer`; empty without one."""
    n_left_out: int = 0
    """Number of further stereoisomers or tautomers of the parent that are no candidates, since there are too many."""


class Reading(Protocol):
    """The rules by which the text of a proposal becomes a candidate: the key `standardise` of a campaign file."""

    def apply(self, text: object, multiplicity: int | None = None) -> Standardised:
        """Returns the candidate of a text. Raises InvalidCandidateError for any text that is none."""

    def forms(self, text: object, multiplicity: int | None = None) -> Sequence[Standardised]:
        """Returns all candidates of a text: the one that `apply` returns, or its stereoisomers and tautomers where the
        rules enumerate them. Raises InvalidCandidateError as `apply` does."""

    @property
    def most_forms(self) -> int:
        """The largest number of candidates that `forms` returns."""

    def of(self, candidate: Candidate) -> Candidate:
        """Returns the candidate that a proposal of this one becomes; itself if it would be refused."""


class LibraryVersions(NamedTuple):
    """The names and versions on which identities of new candidates depend; columns of the ledger."""

    standardiser: str
    library: str
    """The chemistry library with its version."""


class CandidateColumns(NamedTuple):
    """The columns of a candidate in the ledger."""

    text: str
    identity: str
    charge: int
    multiplicity: int
    formula: str
    n_atoms: int
    inchikey: str | None


class Subject(ABC):
    """One kind of candidate. Its methods are pure functions. Their parameter `notation` is a text as the method
    `notation` returns it."""

    name: ClassVar[str]
    """The word in campaign files, and the `kind` of candidates."""
    words: ClassVar[Words]
    screen: ClassVar[str | None] = None
    """Verifier of the safety screen, the first rung of every ladder; None: there is none."""
    checks: ClassVar[str | None] = None
    """Verifier whose settings also bound the candidates that edits make."""
    synthesis: ClassVar[str | None] = None
    """Verifier that says whether a candidate can be made; None: there is none, and reports do not ask."""
    samples: ClassVar[Mapping[str, str]] = {}
    """Texts by name, for which `sciagent verifiers` shows costs."""
    preload: ClassVar[tuple[str, ...]] = ()
    """Modules that a worker process imports before it forks."""
    distributions: ClassVar[tuple[str, ...]] = ()
    """Packages whose versions belong to the provenance of evidence."""
    formats: ClassVar[tuple[str, ...]] = ()
    """Endings of the files that `records` reads, each also with .gz."""
    fingerprint: ClassVar[str] = ""
    """Name of the fingerprint that `features` compares."""
    matches: ClassVar[bool] = False
    """Whether candidates with different keys may be the same structure, as `same` says. The later is a duplicate."""
    relaxed_file: ClassVar[str] = ""
    """Media type of the files with relaxed structures that `relaxed_distance` compares; empty: there are none."""
    longest: ClassVar[int] = 400
    """Most characters of a text that a model may propose."""
    texts_are_notations: ClassVar[bool] = True
    """Whether `Candidate.text` is the notation."""

    def warm(self) -> None:  # noqa: B027  not abstract: most subjects have no tables
        """Builds the tables of the first use, in a process that is forked for each job."""

    @abstractmethod
    def versions(self) -> LibraryVersions:
        """Returns the versions that this process writes into the ledger."""

    @abstractmethod
    def reading(self, stated: Any = "refuse") -> Reading:
        """Returns the rules of the key `standardise`. Raises ValueError for a value that does not fit the subject."""

    @abstractmethod
    def restored(self, payload: Mapping[str, Any]) -> Candidate:
        """Returns the candidate of a payload. Raises InvalidCandidateError for any other mapping."""

    @abstractmethod
    def from_row(self, columns: CandidateColumns, payload: Mapping[str, Any] | None, is_ours: bool) -> Candidate | None:
        """Returns the candidate of a ledger row; None if the payload is needed and was not given.

        is_ours: whether the present `versions` wrote the row, so that nothing has to be computed again."""

    @abstractmethod
    def record(self, candidate: Candidate) -> Mapping[str, Any]:
        """Returns all fields as JSON for `from_record`."""

    @abstractmethod
    def from_record(self, record: Mapping[str, Any]) -> Candidate:
        """Returns the candidate of a record, without computing its identity."""

    def notation(self, candidate: Candidate) -> str:
        """Returns a text of one line that is read back to the same candidate."""
        return candidate.text

    def shown(self, notation: str) -> str:
        """Returns the text of a notation that people and models read."""
        return notation

    def fault_of(self, text: str) -> str | None:
        """Returns why a model's text cannot be a notation, at a glance; None if it may be one."""
        return None

    def described(self, candidate: Candidate) -> str:
        """Returns formula and size of a candidate in a few words."""
        return f"{candidate.formula}, {candidate.n_atoms} atoms"

    def caveat(self, notation: str) -> str:
        """Returns a remark on a candidate whose geometry as proposed is an estimate; an empty text for any other."""
        return ""

    def notation_of(self, text: str, payload: Mapping[str, Any]) -> str:
        """Returns the notation of a ledger row."""
        return text

    def read(self, notation: str) -> Candidate:
        """Returns the candidate of a notation. Raises InvalidCandidateError."""
        return self.reading().apply(notation).candidate

    @abstractmethod
    def records(
        self, path: Path, column: str | None = None, skip: int = 0, keep: Sequence[str] | None = None
    ) -> Iterator[StructureRecord]:
        """Yields the structures of a file one by one, as `read_structures` does. column: None means `words.column`."""

    def is_file_of(self, name: str) -> bool:
        """Returns whether the name of a file says that `records` reads it."""
        return name.lower().removesuffix(".gz").endswith(self.formats)

    @abstractmethod
    def features(self, notation: str) -> Features:
        """Returns family and fingerprint; both are empty for a text that cannot be processed."""

    @abstractmethod
    def similarities(self, candidate: Features, others: Sequence[Features]) -> Sequence[float]:
        """Returns (n,) similarities, 0 to 1, of a candidate to others."""

    def nearest(self, candidate: Features, others: Sequence[Features]) -> float | None:
        """Returns the similarity to the most similar of others; None if there are none."""
        return max(self.similarities(candidate, others), default=None)

    def families(self, notation: str, by: str) -> tuple[str, ...]:
        """Returns the families of a candidate. Rewards decay with the number of candidates of a family.

        by: what makes a family, the value of the key `decay_by`."""
        return (self.features(notation).family,)

    def same(self, candidate: Candidate, other: Candidate) -> bool:
        """Returns whether two candidates of one family and formula are the same structure although their keys differ.

        It is asked only if `matches` is true."""
        return False

    def relaxed_distance(self, relaxed: str, other: str) -> float | None:
        """Returns the largest distance, in angstrom, between the positions of one atom in two relaxed structures that
        match; None if they do not match, or one of them cannot be read.

        relaxed, other: contents of files of the type `relaxed_file`."""
        return None

    @abstractmethod
    def structure(self, notation: str) -> StructureFingerprint | None:
        """Returns what the law, the model that predicts results, compares; None if the text cannot be processed."""

    @abstractmethod
    def drawing(self, notation: str, width: int = 260, height: int = 190) -> str:
        """Returns an SVG with colours from CSS; an empty text if it cannot be drawn."""

    def fragment_drawing(self, notation: str, feature: int, width: int = 260, height: int = 190) -> str:
        """Returns the drawing of a candidate in which an atom environment is marked; an empty text if it cannot be
        drawn, or if the subject's environments have no place in a drawing. feature: as in `StructureFingerprint`."""
        return ""

    def atoms(self, payload: Mapping[str, Any]) -> Any:
        """Returns the ASE Atoms (angstrom) of a payload; None if it holds no coordinates.

        Raises InvalidCandidateError for a payload that cannot be read."""
        return None

    def cell(self, candidate: Candidate) -> Mapping[str, Any] | None:
        """Returns the cell of a candidate and its sites as JSON; None for a subject without cells."""
        return None

    def geometry(self, payload: Mapping[str, Any]) -> tuple[str, str] | None:
        """Returns the text and the format (`cif`, `xyz`) of the geometry of a payload, for the rotatable view of the
        report; None if the payload holds no coordinates."""
        return None

    @property
    def edits(self) -> EditSet | None:
        """The edits of searches and models; None: candidates can only be read from texts and files."""
        return None


class EditSite(Protocol):
    """One place of a candidate, or several that are equal by symmetry."""

    @property
    def number(self) -> int:
        """From 1."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...


class EditByName(Protocol):
    """An edit that a model calls by name."""

    @property
    def name(self) -> str: ...
    @property
    def whats(self) -> tuple[str, ...]:
        """The names that may be given as `what`; empty if the edit needs none."""

    @property
    def says(self) -> str:
        """A few words on the effect of the edit."""

    def fits(self, site: Any) -> bool: ...


class EditSet(ABC):
    """All edits of a subject. Candidates are given and returned as notations. The parameter `limits` of a method is
    what the method `limits` returns."""

    named: ClassVar[Mapping[str, Any]]
    """The edits that a model calls by name (`EditByName`)."""
    operations: ClassVar[tuple[str, ...]]
    """The moves of a search on one candidate."""
    crossovers: ClassVar[tuple[str, ...]] = ()
    """The moves of a search on two candidates."""
    shares: ClassVar[Mapping[str, float]] = {}
    """Weights of moves before a search has seen which succeed; other moves have 1."""

    @property
    @abstractmethod
    def tables_hash(self) -> str:
        """The hash of the tables on which the children of a named edit depend."""

    @abstractmethod
    def limits(self, checks: Sequence[Any] = (), size: int | None = None) -> Any:
        """Returns bounds on children. checks: settings of the rungs with the subject's checks. size: most atoms."""

    @abstractmethod
    def too_large(self, candidate: Candidate, limits: Any) -> str | None:
        """Returns why a candidate is too large to edit; None if it is not."""

    @abstractmethod
    def mutate(self, text: str, rng: random.Random, operation: str, limits: Any) -> str | None:
        """Returns a child by an operation; None if nothing fits."""

    def cross(
        self, parents: tuple[str, str], rng: random.Random, limits: Any, operation: str | None = None
    ) -> tuple[str, str] | None:
        """Returns a child of two candidates and the name of its operation; None if nothing fits. operation: None means
        any."""
        return None

    @abstractmethod
    def group(self, text: str) -> str:
        """Returns the group of a candidate. A population of a search holds only some candidates of a group."""

    @abstractmethod
    def sites(self, text: str) -> Sequence[EditSite]:
        """Returns the sites of a candidate, by number."""

    @abstractmethod
    def described_sites(self, candidate: Candidate) -> list[str]:
        """Returns lines that list the sites of a candidate, and the edits that fit them; none for a large candidate."""

    @abstractmethod
    def choices(self, text: str, edit: str, what: str | None = None, where: int | None = None) -> list[Any]:
        """Returns the pairs (what, site) that fit an edit; `what` is empty for an edit that needs none."""

    @abstractmethod
    def children(self, text: str, edit: str, what: str | None, where: int, limits: Any) -> list[str]:
        """Returns the children of an edit at a site, in a fixed order."""
