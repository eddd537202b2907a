"""A control in a campaign file: allowed and refused keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import control_score
from sciagent.campaign.file.campaign_spec import CampaignSpec, parse_spec
from sciagent.domain.evidence_keys_and_pooled_replicates import Level, Measured
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.errors import SpecError
from sciagent.store.results.evidence import RecordedEvidence

LADDER = """
campaign: controlled
subject: molecule
objectives: [{property: homo_lumo_gap, window: [3, 9], unit: eV}]
ladder:
  - {rung: checks, verifier: molecule.checks}
  - {rung: xtb, verifier: xtb.singlepoint, settings: {geometry: {method: mmff94, conformers: 1}}}
"""
REST = """
goal: {kind: hits}
budget: {proposals: 10}
proposer: {kind: screen, file: molecules.csv}
scheduler: {kind: exhaustive}
"""
CONTROL = "  - {rung: full, verifier: xtb.singlepoint, control: true}\n"


def spec_of(ladder: str = "", rest: str = REST) -> CampaignSpec:
    return parse_spec(LADDER + ladder + rest, candidates=False)


def test_a_control_is_no_part_of_the_ladder_and_of_the_terminal_rung() -> None:
    spec = spec_of(CONTROL)
    assert [rung.rung for rung in spec.ladder] == ["molecule_safety", "checks", "xtb"]
    assert spec.control is not None and spec.control.rung == "full"
    assert (spec.terminal, spec.position("full")) == ("xtb", 3)
    stated = spec.canonical()["ladder"][-1]
    assert (stated["control"], stated["share"], stated["gate"]) == (True, 0.2, {})
    assert "accept" not in stated


def test_a_campaign_without_a_control_keeps_its_hash() -> None:
    plain = spec_of()
    assert all(not {"control", "share", "accept"} & rung.keys() for rung in plain.canonical()["ladder"])
    assert plain.hash != spec_of(CONTROL).hash


@pytest.mark.parametrize(
    ("ladder", "rest", "message"),
    [
        (CONTROL.replace("true", "true, gate: {homo_lumo_gap: {min: 3, unit: eV}}"), REST, "a control decides nothing"),
        (CONTROL.replace("true", "true, calibrate: {from: measured, kind: offset}"), REST, "a control decides nothing"),
        (CONTROL.replace("true", "true, inline: true"), REST, "not inside a turn"),
        (CONTROL + CONTROL.replace("full", "fuller"), REST, "a campaign has one control"),
        (CONTROL + "  - {rung: last, verifier: pyscf.scf}\n", REST, "a control comes after all other rungs"),
        (CONTROL, REST + "terminal: full\n", "it cannot be the control"),
        (CONTROL.replace("full", "xtb"), REST, "labels must differ"),
        (
            CONTROL.replace("control", "settings: {geometry: {method: mmff94, conformers: 1}}, control"),
            REST,
            "the same calculation",
        ),
        ("  - {rung: full, verifier: molecule.checks, control: true}\n", REST, "measures no objective"),
        ("  - {rung: full, verifier: xtb.singlepoint, share: 0.5}\n", REST, "is for a control"),
        (CONTROL.replace("true", "true, share: 0"), REST, "greater than 0"),
        (CONTROL.replace("true", "true, accept: {logp: {min: 1}}"), REST, 'does not measure "logp"'),
        (CONTROL, REST.replace("proposals: 10", "proposals: 10, rungs: {ful: 3}"), 'did you mean "full"'),
    ],
)
def test_what_a_control_may_not_be(ladder: str, rest: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        spec_of(ladder, rest)


def test_a_ladder_needs_a_rung_that_decides() -> None:
    with pytest.raises(SpecError, match="its only rung is a control"):
        parse_spec(LADDER[: LADDER.index("  - {rung: checks")] + CONTROL + REST)


def test_the_objectives_cannot_rest_on_a_control() -> None:
    wanted = LADDER.replace(
        "[{property: homo_lumo_gap, window: [3, 9], unit: eV}]",
        "[{property: logp, min: 1}, {property: dipole, max: 3, unit: D}]",
    )
    only = wanted.replace(
        "{rung: xtb, verifier: xtb.singlepoint, settings: {geometry: {method: mmff94, conformers: 1}}}",
        "{rung: more, verifier: molecule.checks, settings: {descriptors: [logp]}}",
    )
    with pytest.raises(SpecError, match='no rung up to the terminal "more" measures "dipole"'):
        parse_spec(only + CONTROL + REST)


def answer(gap: float, censoring: Censoring = Censoring.NONE, outcome: Outcome = Outcome.OK) -> RecordedEvidence:
    measured = Measured("homo_lumo_gap", Level("GFN2-xTB"), Quantity(gap, "eV", 0.01, censoring))
    return RecordedEvidence(1, "k", 1, outcome, None, "", 1, (measured,) if outcome is Outcome.OK else ())


@pytest.mark.parametrize(
    ("control", "found", "score"),
    [
        (CONTROL, answer(5), 1.0),  # the limits of the objective
        (CONTROL, answer(12), 0.0),
        (CONTROL.replace("true", "true, accept: {homo_lumo_gap: {min: 6, unit: eV}}"), answer(5), 0.0),
        (CONTROL.replace("true", "true, accept: {homo_lumo_gap: {min: 6, unit: eV}}"), answer(12), 1.0),
        (CONTROL, answer(8, Censoring.ABOVE), None),  # it may lie on either side of the limit
        (CONTROL, answer(5, outcome=Outcome.NOT_CONVERGED), None),
    ],
)
def test_the_score_of_a_control(control: str, found: RecordedEvidence, score: float | None) -> None:
    spec = spec_of(control)
    assert spec.control is not None
    assert control_score(spec.control, spec.domain_objectives(), found) == score


def test_without_limits_the_score_is_the_utility() -> None:
    best = LADDER.replace("window: [3, 9], unit: eV", "maximise: [0, 10], unit: eV")
    spec = parse_spec(best + CONTROL + REST.replace("kind: hits", "kind: best"), candidates=False)
    assert spec.control is not None
    score = control_score(spec.control, spec.domain_objectives(), answer(5))
    assert score == pytest.approx(0.5)


def test_a_file_keeps_its_other_defaults(tmp_path: Path) -> None:
    """The control of a stored campaign keeps the defaults with which it began, as other rungs do."""
    spec = spec_of(CONTROL)
    stored = {**spec.canonical(), "ladder": [dict(rung) for rung in spec.canonical()["ladder"]]}
    changed = dict(stored["ladder"][-1]["settings"])
    changed["geometry"] = {**changed["geometry"], "conformers": 3}
    stored["ladder"][-1]["settings"] = changed
    kept = spec.with_defaults_of(stored, spec)
    assert kept.control is not None
    assert kept.canonical()["ladder"][-1]["settings"]["geometry"]["conformers"] == 3
    assert [rung.rung for rung in kept.ladder] == [rung.rung for rung in spec.ladder]
