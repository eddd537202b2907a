"""The error of a method against experiment, as a verifier declares it from a benchmark.

The error is a statistic of the benchmark's molecules: the differences between computed and measured values of a
property. It is not the uncertainty of a single molecule.
"""

from __future__ import annotations

from dataclasses import dataclass

from sciagent.domain.properties import Level


@dataclass(frozen=True)
class MethodError:
    """The error of one method for one property. Errors are computed minus reference values.

    Raises ValueError for n < 2 or a mean error beyond the mean absolute one.
    """

    property: str
    """Name of the property."""
    method: str
    """`Level.method` of the computed values."""
    n: int
    """Number of molecules of the benchmark."""
    mean_error: float
    """Mean of computed minus reference, in `unit`."""
    mean_absolute_error: float
    """Mean of the absolute differences, in `unit`."""
    unit: str
    """One of the property's units."""
    chemistry: str
    """The molecules of the benchmark in a few words."""
    source: str
    """File and entry that hold the figures."""
    basis: str = ""
    """`Level.basis` of the computed values."""
    phase: str = "gas"
    """`Level.phase` of the computed values."""
    reference: str = "experiment"
    """The source of the reference values: `experiment`, or the name of a better theory."""
    root_mean_square: float | None = None
    """Root of the mean square difference, in `unit`."""

    def __post_init__(self) -> None:
        if self.n < 2 or abs(self.mean_error) > self.mean_absolute_error * (1 + 1e-9):
            raise ValueError(f"{self.property} by {self.method}: these errors cannot come from one set of molecules")

    def holds_for(self, name: str, level: Level) -> bool:
        """Returns whether the figures belong to this property and level; the protocol of the geometry may differ."""
        same = (self.method, self.basis, self.phase) == (level.method, level.basis, level.phase or "gas")
        return same and self.property == name
