"""Uncertainties from soft modes, whose frequencies differ between relaxations to the same minimum.

A relaxation stops where forces are small, not where they are zero, and along a flat mode it stops anywhere. The noise
is one of the curvature: the squared frequency scatters by about the same for all modes, so that a frequency
scatters by NOISE / (2 frequency). That is nothing for a stiff mode and as much as the frequency itself for one at 10
cm^-1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sciagent_simulators.thermochemistry.ideal_gas import HC, quasi_harmonic_entropy, vibration_energy

Array = NDArray[np.float64]

# Standard deviation of the squared lowest frequency, cm^-2: root mean square over the molecules of
# benchmarks/soft_modes, GFN2-xTB, six relaxations each.
NOISE = 240.0


@dataclass(frozen=True)
class SoftModeScatter:
    """Standard uncertainties by the noise of all modes. Modes err independently."""

    lowest: float | None
    """Standard uncertainty of the lowest frequency, cm^-1; None for an atom."""
    zero_point: float
    """Standard uncertainty of the zero-point energy, eV."""
    enthalpy: float
    """Standard uncertainty of the enthalpy, eV."""
    gibbs: float
    """Standard uncertainty of the free energy, eV."""


def soft_mode_scatter(frequencies: Array, temperature: float) -> SoftModeScatter:
    """Returns how far the noise moves the values. frequencies: (m,), cm^-1, positive; temperature: K."""
    if not frequencies.size:
        return SoftModeScatter(None, 0.0, 0.0, 0.0)
    other = np.sqrt(frequencies**2 + NOISE)
    energies, entropies = (
        function(other, temperature) - function(frequencies, temperature)
        for function in (vibration_energy, quasi_harmonic_entropy)
    )
    shift = other - frequencies
    lowest = float(shift[frequencies.argmin()])
    sizes = (float(np.linalg.norm(part)) for part in (0.5 * HC * shift, energies, energies - temperature * entropies))
    return SoftModeScatter(lowest, *sizes)
