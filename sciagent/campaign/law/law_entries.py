"""Law entries: what campaigns measured of some quantities, with what is needed to foretell them for other structures.

An entry holds rows, not a fitted state: the candidates with their values, the transform and the hyper-parameters of
each quantity, rounded. The covariance is factorised again whenever the entry is used. Its hash covers all of this, so
that an entry is the same for any order of campaigns and ledgers, and on any machine that rounds to the same
hyper-parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from sciagent.campaign.core.value_sources import ValueSource
from sciagent.chemistry.subjects.base import Subject
from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.scheduling.array_types import Array
from sciagent.scheduling.law.left_out_calibration import WidthCalibration
from sciagent.scheduling.law.structure_process import ComparedStructures, StructureMemory, Transform

KERNEL = "structure-process-1"
"""Version of the kernel; a change of the process's arithmetic changes it, and with it the hashes of all new entries."""
DIGITS = 6  # decimal places of the logarithms of hyper-parameters


@dataclass(frozen=True)
class LawRowOfCandidate:
    """A candidate and its value, in the canonical unit of the quantity."""

    key: str
    notation: str
    charge: int
    """Net charge, in elementary charges."""
    value: float
    group: int
    """Place of its campaign among those of the entry; of several campaigns, the first."""


@dataclass(frozen=True)
class QuantityLaw:
    """The law of one quantity: its rows, sorted by key, and what was fitted to them."""

    name: str
    """Name of the property."""
    unit: str
    level: str
    source: ValueSource
    transform: Transform
    log_hyper: tuple[float, ...]
    """Natural logarithms of a, b and s of the process, to six decimal places."""
    rows: tuple[LawRowOfCandidate, ...]
    calibration: WidthCalibration

    def memory(self, subject: Subject) -> StructureMemory:
        """Returns the process that remembers the rows; it takes seconds for thousands of them."""
        compared = ComparedStructures()
        compared.add([subject.structure(row.notation) for row in self.rows])
        return StructureMemory(compared, self.values, self.transform, np.array(self.log_hyper))

    @property
    def amplitudes(self) -> tuple[float, float, float]:
        """The standard deviations a, b and s of the process, in units of the spread of the values."""
        similar, linear, noise = (math.exp(each) for each in self.log_hyper)
        return similar, linear, noise

    @property
    def values(self) -> Array:
        """(n,) values of the rows, in the canonical unit."""
        return np.array([row.value for row in self.rows])

    @property
    def groups(self) -> NDArray[np.int64]:
        """(n,) places of the rows' campaigns among those of the entry."""
        return np.array([row.group for row in self.rows], dtype=np.int64)


@dataclass(frozen=True)
class LawEntry:
    """A law of some quantities, fitted to what campaigns measured."""

    kind: str
    """Kind of the candidates, such as `molecule`."""
    campaigns: tuple[str, ...]
    """Names of the campaigns whose values it holds, sorted; a name is there twice if two ledgers have one."""
    quantities: tuple[QuantityLaw, ...]

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the kernel's version, the rows, the transforms and the hyper-parameters."""
        plain = _ENTRY.dump_python(self, mode="json")
        for law in plain["quantities"]:
            del law["calibration"]  # it follows from the rest
        return content_hash({"kernel": KERNEL, **plain})

    @property
    def sources(self) -> dict[str, ValueSource]:
        """The computation behind the values of each quantity, by name."""
        return {law.name: law.source for law in self.quantities}

    @property
    def keys(self) -> frozenset[str]:
        """Keys of the candidates of which it holds a value."""
        return frozenset(row.key for law in self.quantities for row in law.rows)

    def quantity(self, name: str) -> QuantityLaw | None:
        """Returns the law of a property; None if the entry has none."""
        return next((law for law in self.quantities if law.name == name), None)

    def text(self) -> str:
        """Returns the entry as JSON."""
        return _ENTRY.dump_json(self).decode()

    @classmethod
    def from_text(cls, text: str) -> LawEntry:
        """Returns the entry that `text` gave. Raises ValueError for other JSON."""
        return _ENTRY.validate_json(text)


_ENTRY = TypeAdapter(LawEntry)
