"""The verifiers `orca.scf` and `gaussian.scf`: frontier orbitals, dipole and total energy by ORCA and Gaussian."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Self

from pydantic import model_validator

from sciagent_simulators.programs.gaussian import GAUSSIAN, GAUSSIAN_SCF, UNSUPPORTED_BASES, UNSUPPORTED_METHODS
from sciagent_simulators.programs.orca import ORCA, ORCA_SCF
from sciagent_verifiers.programs.program_verifiers import ProgramScfSettings, SelfConsistentField


class OrcaScf(SelfConsistentField):
    """Orbitals, dipole and total energy by ORCA (5 or later), in the gas phase or an implicit solvent.

    It needs ORCA, which is free for academics and has a licence of its own: on the path, or the file that SCIAGENT_ORCA
    names. With several cores (`resources: {cores: 4}`) ORCA needs its MPI, and its file must be named in full, which
    sciagent does. It gets three quarters of the rung's memory.

    The geometry is the one of `pyscf.scf` and `xtb.singlepoint` with the same `geometry:`. `B3LYP` is that of Gaussian
    and PySCF (B3LYP/G). ORCA approximates Coulomb and exchange (RIJCOSX) unless `keywords: [NoCOSX]` says otherwise;
    both count as one level, as density fitting in PySCF does. Double hybrids and correlated methods are refused.

    The verifier is not tested with the real program: tests read recorded output and run a program that writes it. The
    reader and cclib 1.8.1 gave equal values for eight outputs of ORCA 5.0 in cclib's test data (not part of this
    package).

    The uncertainty is repeatability (k = 1) over conformer searches, as for `pyscf.scf`.

    Source: Neese, WIREs Comput. Mol. Sci. 12, e1606 (2022).
    """

    name = "orca.scf"
    version = "1"
    programs = (ORCA,)
    Settings = ProgramScfSettings
    scf = ORCA_SCF

    def defaults_for(self, charges: Collection[int]) -> Mapping[str, Any]:
        """Returns a basis set with diffuse functions where anions are expected."""
        has_anions = any(charge < 0 for charge in charges)
        if has_anions and self.settings.basis == "def2-SVP":
            return {"basis": "def2-SVPD"}
        return {}


class GaussianScfSettings(ProgramScfSettings):
    """A self-consistent field by Gaussian. Names that sciagent knows mean the same in every engine."""

    @model_validator(mode="after")
    def _gaussian_has_it(self) -> Self:
        if any(part in self.functional.lower() for part in UNSUPPORTED_METHODS):
            raise ValueError(f"Gaussian has no {self.functional}; pyscf.scf or orca.scf may")
        if self.basis.lower() in UNSUPPORTED_BASES:
            raise ValueError(
                f"Gaussian has no {self.basis}; a basis with diffuse functions is 6-31+G(d) or aug-cc-pVDZ"
            )
        if self.dispersion == "d4":
            raise ValueError("Gaussian has no D4; use dispersion: d3bj")
        return self


class GaussianScf(SelfConsistentField):
    """Orbitals, dipole and total energy by Gaussian 16 or 09, in the gas phase or an implicit solvent.

    It needs Gaussian, which is commercial: `g16` or `g09` on the path, or the file that SCIAGENT_GAUSSIAN names, in the
    environment that it needs (g16root, GAUSS_EXEDIR). It gets 70 % of the rung's memory; its scratch files lie in the
    job's folder.

    The geometry is the one of `pyscf.scf` and `xtb.singlepoint` with the same `geometry:`. The grid is UltraFine. The
    dipole of an ion is about its centre of mass. Double hybrids and correlated methods are refused.

    The verifier is not tested with the real program: tests read recorded output and run a program that writes it. The
    reader and cclib 1.8.1 gave equal values for seven outputs of Gaussian 16 in cclib's test data (not part of this
    package).

    The uncertainty is repeatability (k = 1) over conformer searches, as for `pyscf.scf`.

    Source: Frisch et al., Gaussian 16, Gaussian, Inc., Wallingford CT (2016).
    """

    name = "gaussian.scf"
    version = "1"
    programs = (GAUSSIAN,)
    Settings = GaussianScfSettings
    settings: GaussianScfSettings
    scf = GAUSSIAN_SCF
