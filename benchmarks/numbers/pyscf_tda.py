"""S1 and oscillator strength of pyscf.tda against theoretical best estimates: writes pyscf_tda.json as it goes.

python benchmarks/numbers/pyscf_tda.py, 7 chromophores, about seven minutes on one core.
Reference: QUEST, TBE/aug-cc-pVTZ and LR-CC3 oscillator strengths (github.com/pfloos/QUESTDB, data/json/MAIN; Veril et
al., WIREs Comput. Mol. Sci. 11, e1517 (2021); Loos et al., J. Chem. Theory Comput. 21 (2025)).
"""

from __future__ import annotations

from agreement import agreement, keep
from pyscf_runs import finding

from sciagent_verifiers.high_fidelity.pyscf_tda import PyscfTda

# name, SMILES, S1 (eV), oscillator strength
BEST = [
    ("thioformaldehyde", "C=S", 2.207, 0.0),
    ("formaldehyde", "C=O", 3.966, 0.0),
    ("s-tetrazine", "c1nncnn1", 2.462, 0.006),
    ("butadiene", "C=CC=C", 6.222, 0.664),
    ("streptocyanine-1", "NC=[NH2+]", 7.115, 0.347),
    ("streptocyanine-3", "N/C=C/C=[NH2+]", 4.795, 0.755),
    ("pyrazine", "c1cnccn1", 4.144, 0.006),
]
SETTINGS = {"functional": "CAM-B3LYP", "basis": "def2-SVPD", "grid": 1, "states": 2, "spin_check": "off"}


def main() -> None:
    rows = []
    for name, smiles, energy, strength in BEST:
        row = {"name": name, "best": {"s1": energy, "f": strength}}
        for method, full in (("TDA", False), ("TDDFT", True)):
            verifier = PyscfTda(SETTINGS | {"full": full})
            found, seconds = finding(verifier, smiles)
            row[method] = {
                "s1": found.get("s1_energy"),
                "f": found.get("s1_oscillator_strength"),
                "nm": found.get("s1_wavelength"),
                "reason": found.get("reason"),
                "core_seconds": seconds,
            }
        rows.append(row)
        done = {"unit": "eV", "level": "CAM-B3LYP/def2-SVPD//GFN2-xTB", "rows": rows}
        if len(rows) > 2:
            for method in ("TDA", "TDDFT"):
                for what in ("s1", "f"):
                    done[f"summary {method} {what}"] = agreement(
                        [r[method][what] for r in rows], [r["best"][what] for r in rows]
                    )
        keep("pyscf_tda.json", "python benchmarks/numbers/pyscf_tda.py", done, ("pyscf", "rdkit", "tblite"))


if __name__ == "__main__":
    main()
