"""Free energies of redox and of transfer as derived properties: the campaign of docs/methods.md on two molecules."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import campaigns
from tests.support.campaigns import sciagent

EV = 96.485332  # kJ/mol
POTENTIAL = "adiabatic_oxidation_potential"


def test_the_redox_campaign_of_the_page_gives_differences_of_free_energies(tmp_path: Path) -> None:
    (block,) = (block for block in campaigns() if "campaign: oxidation" in block.text)
    (tmp_path / "oxidation.yaml").write_text(block.text, encoding="utf-8")
    (tmp_path / "library.csv").write_text("smiles\nNc1ccccc1\nO\n")
    sciagent("run", "oxidation.yaml", "--quiet", "--no-report", cwd=tmp_path)
    rows = {row["smiles"]: row["values"] for row in sciagent("best", "oxidation", "-n", "9", "--json", cwd=tmp_path)}
    assert rows.keys() == {"Nc1ccccc1", "O"}
    settings = {"gas": [], "water": ["--set", "solvent=water"]}
    settings["cation"] = [*settings["water"], "--set", "ion=cation"]
    free: dict[str, dict[str, float]] = {smiles: {} for smiles in rows}
    for rung, given in settings.items():
        for found in sciagent("calc", "xtb.thermo", *rows, *given, "--json", cwd=tmp_path):
            assert found["reused"], "the campaign has computed it"
            value = next(v["value"] for v in found["values"] if v["property"] == "gibbs_free_energy")
            free[found["smiles"]][rung] = value
    for smiles, values in rows.items():
        oxidised, water, gas = (free[smiles][rung] for rung in ("cation", "water", "gas"))
        assert values[POTENTIAL]["value"] == pytest.approx(oxidised - water - 4.8455 - 4.281, abs=1e-4)
        assert values["transfer_free_energy"]["value"] == pytest.approx((water - gas) * EV, abs=0.01)
    assert (
        rows["O"]["adiabatic_oxidation_potential"]["value"]
        > rows["Nc1ccccc1"]["adiabatic_oxidation_potential"]["value"] + 1
    ), "aniline is oxidised, water not"
