"""Molecules that break naive density functional theory, and what becomes of them: writes pyscf_breakers.json.

python benchmarks/numbers/pyscf_breakers.py, about five minutes on one core. Naive: a restricted calculation that is
believed when it has converged, without effective core potentials. Exits 1 when an outcome or a reason is not the stated
one.
"""

from __future__ import annotations

import sys
from typing import Any

from agreement import keep
from pyscf_runs import one

from sciagent_verifiers.high_fidelity.pyscf_ip_ea import PyscfIpEa
from sciagent_verifiers.high_fidelity.pyscf_orbitals_dipole_energy import PyscfScf
from sciagent_verifiers.high_fidelity.pyscf_tda import PyscfTda

SCF: dict[str, Any] = {"grid": 1}
WET = SCF | {"solvent": "water", "basis": "def2-SVPD"}
ADIABATIC = SCF | {"kind": "adiabatic", "which": ["ea"]}
LOCAL = SCF | {"functional": "PBE", "states": 1}

# name, SMILES, multiplicity (None: the lowest that fits), verifier, what goes wrong naively, outcome, reason
CASES: list[tuple[str, str, int | None, Any, str, str, str | None]] = [
    ("singlet dioxygen", "O=O", 1, PyscfScf(SCF), "the ground state is another", "unstable", "triplet_ground_state"),
    ("triplet dioxygen", "O=O", 3, PyscfScf(SCF), "open shell", "ok", None),
    ("singlet methylene", "[CH2]", 1, PyscfScf(SCF), "the ground state is another", "unstable", "triplet_ground_state"),
    ("nitroxyl", "N=O", None, PyscfScf(SCF), "the restricted solution breaks symmetry", "unstable", "scf_unstable"),
    ("cyclobutadiene", "C1=CC=C1", None, PyscfScf(SCF), "the same", "unstable", "scf_unstable"),
    ("p-benzyne", "[c]1cc[c]cc1", 1, PyscfScf(SCF), "a singlet diradical", "unstable", "scf_unstable"),
    ("ozone", "[O-][O+]=O", None, PyscfScf(SCF), "stable and yet two determinants", "unstable", "near_degenerate"),
    ("dicarbon", "[C]#[C]", 1, PyscfScf(SCF), "near-degenerate throughout", "unstable", "scf_unstable"),
    ("difluorine", "FF", None, PyscfScf(SCF), "weakly bound, still one determinant", "ok", None),
    ("nitrogen dioxide", "O=[N][O]", 2, PyscfScf(SCF), "open shell", "ok", None),
    ("methyl iodide", "CI", None, PyscfScf(SCF), "iodine has 53 electrons without its potential", "ok", None),
    ("hydroxide", "[OH-]", None, PyscfScf(SCF), "the basis holds the electron", "unstable", "anion_unbound"),
    ("hydroxide in water", "[OH-]", None, PyscfScf(WET), "bound in solution", "ok", None),
    ("hydride", "[H-]", None, PyscfScf(SCF), "the basis holds the electron", "unstable", "anion_unbound"),
    ("chloride", "[Cl-]", None, PyscfScf(SCF), "the basis lacks diffuse functions", "unstable", "anion_unbound"),
    ("chloride, diffuse", "[Cl-]", None, PyscfScf(SCF | {"basis": "def2-SVPD"}), "bound", "ok", None),
    ("titanium dioxide", "O=[Ti]=O", 1, PyscfScf(SCF), "a transition metal", "ok", None),
    ("hydrogen chloride anion", "Cl", None, PyscfIpEa(ADIABATIC), "falls apart", "unstable", "anion_dissociated"),
    (
        "3-aminopropylidene malononitrile",
        "NCCC=C(C#N)C#N",
        None,
        PyscfTda(LOCAL),
        "from the amine to the nitriles, far too low",
        "unstable",
        "charge_transfer",
    ),
    ("ozone's excitation", "[O-][O+]=O", None, PyscfTda(SCF), "no ground state", "unstable", "near_degenerate"),
]


def main() -> int:
    rows = []
    for name, smiles, multiplicity, verifier, naive, outcome, reason in CASES:
        found, seconds = one(verifier, smiles, multiplicity)
        said = (str(found.outcome), str(found.reason) if found.reason else None)
        rows.append(
            {
                "name": name,
                "smiles": smiles,
                "verifier": verifier.name,
                "level": verifier.settings.level.label,
                "naive": naive,
                "expected": [outcome, reason],
                "found": list(said),
                "right": said == (outcome, reason),
                "detail": found.detail,
                "electrons": found.diagnostics.get("electrons"),
                "core_seconds": seconds,
            }
        )
        keep(
            "pyscf_breakers.json",
            "python benchmarks/numbers/pyscf_breakers.py",
            {"right": sum(r["right"] for r in rows), "of": len(rows), "rows": rows},
            ("pyscf", "rdkit", "tblite"),
        )
    return 0 if all(r["right"] for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
