"""Ionisation energies and electron affinities of pyscf.ip_ea against experiment: writes pyscf_ip_ea.json as it goes.

python benchmarks/numbers/pyscf_ip_ea.py, 20 numbers, about eleven minutes on one core.
Every experimental value is adiabatic. The 13 rows of kind "adiabatic" are computed so, too. The 7 of kind "vertical"
(the molecules of VERTICAL) are not: like does not stand beside like there, and the difference is the method's error
together with the energy that the ion would gain by relaxing. That makes a vertical ionisation energy the larger, and a
vertical affinity the smaller, of the two. So the kinds are summarised apart.
Experiment: ionisation.csv, and for the small open shells the NIST Chemistry WebBook, SRD 69: O2 12.070 and 0.448
(Tonkyn et al. 1989; Ervin et al. 2003), SO2 1.107 (Nimlos, Ellison 1986), NO2 2.273 (Ervin et al. 1988), OH 13.017 and
1.828 (Wiedmann et al. 1992; Smith et al. 1997), SH 2.317 (Chaibi et al. 2006), CN 3.862 (Bradforth et al. 1993).
"""

from __future__ import annotations

from typing import Any

from agreement import agreement, keep, table
from pyscf_runs import finding

from sciagent_verifiers.high_fidelity.pyscf_ip_ea import PyscfIpEa

ADIABATIC = ("water", "ammonia", "methanol", "formaldehyde", "ethylene")
VERTICAL = ("acetonitrile", "furan", "thiophene", "pyridine", "benzene", "maleic anhydride", "p-benzoquinone")
SMALL = [
    ("dioxygen", "O=O", 3, "ip", 12.070),
    ("dioxygen", "O=O", 3, "ea", 0.448),
    ("sulfur dioxide", "O=S=O", 1, "ea", 1.107),
    ("nitrogen dioxide", "[O]N=O", 2, "ea", 2.273),
    ("hydroxyl", "[OH]", 2, "ip", 13.017),
    ("hydroxyl", "[OH]", 2, "ea", 1.828),
    ("mercapto", "[SH]", 2, "ea", 2.317),
    ("cyano", "[C]#N", 2, "ea", 3.862),
]

COMPARISON = {
    "adiabatic": "computed and measured adiabatic",
    "vertical": "computed vertical, measured adiabatic: the difference holds the ion's relaxation",
}


def summaries(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the rows of each kind, eV: all together, and ip and ea apart where there are more than two."""
    out: dict[str, Any] = {"comparison": COMPARISON}
    for kind in COMPARISON:
        good = [r for r in rows if r["kind"] == kind and isinstance(r["computed"], float)]
        if not good:
            continue
        errors = sorted((round(abs(r["computed"] - r["experiment"]), 4), r["name"], r["what"]) for r in good)
        out[f"summary {kind} beside adiabatic"] = {
            "n": len(good),
            "mean_absolute": round(sum(error for error, *_ in errors) / len(errors), 3),
            "worst": [{"name": name, "what": what, "absolute": error} for error, name, what in errors[:-4:-1]],
        }
        for part in ("ip", "ea"):
            some = [r for r in good if r["what"] == part]
            if len(some) > 2:
                out[f"summary {kind} {part} beside adiabatic"] = agreement(
                    [r["computed"] for r in some], [r["experiment"] for r in some]
                )
    return out


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
                "experiment_kind": "adiabatic",
                "computed": computed,
                "core_seconds": seconds,
            }
        )
        level = verifier.settings.level.method + "/" + verifier.settings.basis
        done = {"unit": "eV", "level": level} | summaries(rows) | {"rows": rows}
        keep("pyscf_ip_ea.json", "python benchmarks/numbers/pyscf_ip_ea.py", done, ("pyscf", "rdkit", "tblite"))


if __name__ == "__main__":
    main()
