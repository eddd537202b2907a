"""Ionisation energies and electron affinities of pyscf.ip_ea against experiment: writes pyscf_ip_ea.json as it goes.

python benchmarks/numbers/pyscf_ip_ea.py, 18 numbers, about ten minutes on one core.
Experiment: ionisation.csv, and for the small open shells the NIST Chemistry WebBook, SRD 69: O2 12.070 and 0.448
(Tonkyn et al. 1989; Ervin et al. 2003), SO2 1.107 (Nimlos, Ellison 1986), NO2 2.273 (Ervin et al. 1988), OH 13.017 and
1.828 (Wiedmann et al. 1992; Smith et al. 1997), SH 2.317 (Chaibi et al. 2006), CN 3.862 (Bradforth et al. 1993).
"""

from __future__ import annotations

from agreement import agreement, keep, table
from pyscf_runs import finding

from sciagent_verifiers.high_fidelity.pyscf_ip_ea import PyscfIpEa

ADIABATIC = ("water", "ammonia", "methanol", "formaldehyde", "ethylene")
VERTICAL = ("acetonitrile", "furan", "thiophene", "pyridine", "benzene", "maleic anhydride", "p-benzoquinone")
SMALL = [
    ("dioxygen", "O=O", 3, "ip", 12.070), ("dioxygen", "O=O", 3, "ea", 0.448),
    ("sulfur dioxide", "O=S=O", 1, "ea", 1.107),
    ("nitrogen dioxide", "[O]N=O", 2, "ea", 2.273), ("hydroxyl", "[OH]", 2, "ip", 13.017),
    ("hydroxyl", "[OH]", 2, "ea", 1.828), ("mercapto", "[SH]", 2, "ea", 2.317), ("cyano", "[C]#N", 2, "ea", 3.862),
]  # fmt: skip


def main() -> None:
    todo = [(n, s, m, part, value, "adiabatic") for n, s, m, part, value in SMALL]
    for row in table("ionisation.csv"):
        kind = "adiabatic" if row["name"] in ADIABATIC else "vertical" if row["name"] in VERTICAL else None
        wanted = "ea" if row["name"] in ("maleic anhydride", "p-benzoquinone") else "ip"
        if kind and row["kind"] == wanted:
            todo.append((row["name"], row["smiles"], 1, wanted, float(row["value"]), kind))
    rows = []
    for name, smiles, multiplicity, part, value, kind in sorted(todo, key=lambda one: len(one[1])):
        verifier = PyscfIpEa({"which": [part], "kind": kind, "grid": 2, "spin_check": "off"})
        found, seconds = finding(verifier, smiles, multiplicity)
        computed = next(iter(found.values()))
        rows.append(
            {
                "name": name,
                "what": part,
                "kind": kind,
                "experiment": value,
                "computed": computed,
                "core_seconds": seconds,
            }
        )
        done = {"unit": "eV", "level": verifier.settings.level.method + "/" + verifier.settings.basis, "rows": rows}
        for part_ in ("ip", "ea"):
            good = [r for r in rows if r["what"] == part_ and isinstance(r["computed"], float)]
            if len(good) > 2:
                done[f"summary {part_}"] = agreement([r["computed"] for r in good], [r["experiment"] for r in good])
        keep("pyscf_ip_ea.json", "python benchmarks/numbers/pyscf_ip_ea.py", done, ("pyscf", "rdkit", "tblite"))


if __name__ == "__main__":
    main()
