"""The settings of a calculation by ORCA or Gaussian, and the words that users may add to the program's input."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from sciagent_simulators.solvents import PyscfSolvent

WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9()*+=,./_-]{0,59}")
"""The form of the name of a functional or a basis set, and of a further keyword: one word of the program's input.
It has no blank, line break, quote, `%`, `!` or `#`, so it cannot begin a section or a command."""

BEYOND = re.compile(
    r"^(RI-?|SCS-?|SOS-?|U|R|RO)?(MP\d|CC[SD2]|CIS|CI[SD]|QCI|BD|CAS|EOM|SAC|NEVPT|MR|G[1-4]|CBS|W1|TD|OO-|DSD|revDSD)"
    r"|DLPNO|PLYP$|2PLYP|QIDH|0-?DH|wB97X-2|PWPB95|PTPSS|B2GP|B2T|wB2|2-OS",
    re.IGNORECASE,
)
"""Names of correlated, multireference, excited-state and composite methods and of double hybrids. Their energies stand
elsewhere in the output, and their orbitals and dipoles belong to another level."""

ProgramDispersion = Literal["d3bj", "d4"]
ProgramSolventModel = Literal["SMD", "C-PCM"]


@dataclass(frozen=True)
class ProgramMethod:
    """A self-consistent field with its dispersion correction, solvent, and relaxation of the geometry."""

    functional: str
    """Name of the functional or method, as sciagent or the program spells it."""
    basis: str = ""
    """Name of the basis set; empty for a composite method."""
    dispersion: ProgramDispersion | None = None
    """Dispersion correction."""
    solvent: PyscfSolvent | None = None
    """Implicit solvent; None for the gas phase."""
    solvent_model: ProgramSolventModel = "SMD"
    """Model of the solvent."""
    keywords: tuple[str, ...] = ()
    """Further words of the program's own input."""
    relax: bool = False
    """Whether the geometry is relaxed at this level."""
    max_cycles: int = 125
    """Cycles of the self-consistent field."""
    max_steps: int = 100
    """Steps of the relaxation."""


@dataclass(frozen=True)
class Machine:
    """The cores and the memory that a run may use."""

    threads: int = 1
    """Cores."""
    memory_mb: int = 0
    """Memory limit of the job; 0 if unknown."""

    def memory(self, share: float, least: int = 500) -> int:
        """Returns this share of the memory limit, MB, at least `least`. Without a limit it is 2000 MB for each core."""
        return max(least, int(share * (self.memory_mb or 2000 * self.threads / share)))
