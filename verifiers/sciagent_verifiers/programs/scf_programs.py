"""The verifier `orca.scf`: frontier orbitals, dipole and total energy by ORCA."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sciagent.programs import ORCA
from sciagent_simulators.programs.orca import ORCA_SCF
from sciagent_verifiers.programs.self_consistent_field import ProgramScfSettings, SelfConsistentField


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

    The uncertainty is repeatability (k = 1) over the seed of the conformer search, as for `pyscf.scf`.

    Source: Neese, WIREs Comput. Mol. Sci. 12, e1606 (2022).
    """

    name = "orca.scf"
    version = "1"
    programs = (ORCA,)
    Settings = ProgramScfSettings
    scf = ORCA_SCF

    def defaults_for(self, charges: Collection[int]) -> Mapping[str, Any]:
        """Returns a basis set with diffuse functions where anions are expected."""
        return {"basis": "def2-SVPD"} if self.settings.basis == "def2-SVP" and min(charges, default=0) < 0 else {}
