"""The edits of a subject: the moves of a search, and the edits that a model calls by name."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from sciagent.domain.candidates import Candidate


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
    """All edits of a subject. Candidates are given and returned as notations; `limits` come from `limits`."""

    named: ClassVar[Mapping[str, Any]]
    """The edits that a model calls by name (`EditByName`)."""
    operations: ClassVar[tuple[str, ...]]
    """The moves of a search on one candidate."""
    crossovers: ClassVar[tuple[str, ...]] = ()
    """The moves of a search on two candidates."""
    shares: ClassVar[Mapping[str, float]] = {}
    """Weights of the first draws of moves; other moves have 1."""

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
        """Returns the group of a candidate, of which a population holds only some."""

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
