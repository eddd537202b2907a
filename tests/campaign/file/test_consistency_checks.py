"""Parts of a campaign file that are valid by themselves and do not fit together."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.file.campaign_spec import load_spec, parse_spec
from sciagent.errors import SpecError
from sciagent.verification import verifier_registry
from tests.campaign.fake_verifiers import CAMPAIGN, Point, make_folder  # noqa: F401
from tests.campaign.planning.fake_ladder import Dipole, Good, Top
from tests.support.campaigns import GFN1, write_campaign


def test_a_rung_after_the_terminal_one_is_refused(folder: Path) -> None:
    (folder / "dyes.yaml").write_text(CAMPAIGN.replace("terminal: dft", "terminal: checks"))
    with pytest.raises(SpecError) as caught:
        load_spec(folder / "dyes.yaml")
    assert "dyes.yaml:6:15: objectives[0].property: no rung up to" in str(caught.value)
    assert 'dyes.yaml:16:15: ladder[1].verifier: comes after the terminal rung "checks"' in str(caught.value)


@pytest.mark.parametrize(
    ("rung", "message"),
    [
        (", rung: gfn", 'scheduler.rung: "gfn" labels no rung; did you mean "gfn1"?'),
        (", rung: dft", 'scheduler.rung: "dft" is not a paid rung below the terminal one'),
        (", rung: checks", 'scheduler.rung: "checks" is not a paid rung below the terminal one'),
    ],
)
def test_the_rung_that_ranks_is_a_paid_one_below_the_terminal_rung(tmp_path: Path, rung: str, message: str) -> None:
    text = write_campaign(tmp_path).read_text().replace("  - rung: dft\n", GFN1)
    text = text.replace("{kind: exhaustive}", f"{{kind: best_rung{rung}}}")
    with pytest.raises(SpecError, match="paid rungs there: xtb, gfn1") as caught:
        parse_spec(text, base=tmp_path)
    assert message in str(caught.value)


LEFT_OUT = """
campaign: ranked
subject: molecule
objectives:
  - {property: homo_lumo_gap, min: 4, unit: eV}
  - {property: dipole, max: 2, unit: D}
ladder: [{verifier: fake.dipole}, {rung: good, verifier: fake.good}, {rung: top, verifier: fake.top}]
goal: {kind: hits}
budget: {core_seconds: 100}
proposer: {kind: screen, file: all.csv}
scheduler: {kind: best_rung}
safety: {screen: false, reason: the fake verifiers stand alone in these tests}
"""


def test_an_objective_that_no_rung_of_best_rung_measures_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifier_registry, "_points", lambda: {kind.name: Point(kind) for kind in (Dipole, Good, Top)})
    (tmp_path / "all.csv").write_text("smiles\nC\n")
    with pytest.raises(
        SpecError, match=r'scheduler\.kind: "dipole" is measured only by a rung that best_rung leaves out'
    ):
        parse_spec(LEFT_OUT, base=tmp_path)
    named = LEFT_OUT.replace("{kind: best_rung}", "{kind: best_rung, rung: fake_dipole}")
    assert parse_spec(named, base=tmp_path).scheduler.kind == "best_rung"


XTB, DFT = "    verifier: xtb.singlepoint\n", "  - rung: dft\n"
INLINE = {XTB: f"{XTB}    inline: true\n"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {DFT: f"{DFT}    inline: true\n"},
            'ladder[2].inline: "dft" cannot answer inside the turn, since "xtb" before it is bought later',
        ),
        (
            {XTB: f"{XTB}    inline: true\n    resources: {{gpu: 1}}\n"},
            "ladder[1].inline: an inline rung runs beside the campaign's driver and holds cores alone, not gpu",
        ),
        (
            {**INLINE, "{rungs: {": "{rungs: {xtb: 3, "},
            'budget.rungs.xtb: "xtb" answers inside the turn and has no jobs to count',
        ),
        (
            {**INLINE, DFT: f"{DFT}    inline: true\n", "{kind: exhaustive}": "{kind: lottery, chance: 0.2}"},
            'scheduler.kind: lottery draws what "dft" verifies, and an inline rung answers on every candidate',
        ),
        (
            {**INLINE, "{kind: exhaustive}": "{kind: best_rung, rung: xtb}"},
            'scheduler.rung: "xtb" is not a paid rung below the terminal one',
        ),
    ],
)
def test_what_an_inline_rung_does_not_go_with_is_refused(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    text = write_campaign(tmp_path).read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(SpecError) as caught:
        parse_spec(text, base=tmp_path)
    assert message in str(caught.value)
