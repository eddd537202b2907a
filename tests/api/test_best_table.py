"""The table of the best candidates: its columns, and what is said below it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from sciagent.api.best_table import BestTable, best_record, caveat_lines, certainty_lines, nearest_limit
from sciagent.api.terminal_tables_and_signals import text_of
from sciagent.chemistry.crystals.notation_and_structure_text_readers import read_crystal
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.answers.candidate_and_value_answers import (
    BestCandidate,
    EstimatedError,
    ImportedValue,
    IsomerAnswer,
    LimitMargin,
    MethodFigures,
    RungValue,
)
from sciagent.domain.quantities import Censoring

LEVEL = "PBE0/def2-SVP//GFN2-xTB//ETKDGv3x10"
UNSTATED = {"root_mean_square": None, "low": None, "high": None, "charge": "any"}


def valued(value: float, uncertainty: float | None, unit: str, **more: Any) -> RungValue:
    given = {"level": LEVEL, "uncertainty_kind": "class", "isomer": None, "rung": "dft"} | more
    return RungValue(value=value, uncertainty=uncertainty, unit=unit, **given)


def imported(typed: str, unit: str = "eV") -> ImportedValue:
    return ImportedValue(
        value=float(typed),
        unit=unit,
        uncertainty=0.1,
        level="experiment",
        uncertainty_kind=None,
        isomer=None,
        property="gap",
        censoring=Censoring.NONE,
        as_typed=f"{typed} {unit}",
        source="lab.csv sha256 00",
        who="ann",
        why=None,
        at=datetime(2026, 1, 1, tzinfo=UTC),
        cost={},
    )


def candidate(smiles: str, **more: Any) -> BestCandidate:
    fixed = {"key": "0" * 64, "names": {}, "inchikey": None, "utility": 0.5, "p_hit": 1.0, "verified": True}
    fixed |= {"expected_utility": 0.5, "basis": "answered"}
    fixed |= {"hit": True, "in_seeds": False, "standing": "settled", "reason": None, "detail": ""}
    shown = {"kind": "molecule", "text": smiles, "formula": "C2H6O"}
    return BestCandidate(
        **fixed
        | {
            "imported": (),
            "contradicted": None,
            "p_limits": None,
            "p_limits_unknown": (),
            "p_limits_measured": (),
            "margins": (),
            "same_compound": (),
        }
        | shown
        | more
    )


GAP = {"gap": valued(4.42, 0.06, "eV"), "dipole": valued(1.04, 0.6, "D")}


def drawn(*candidates: BestCandidate) -> list[str]:
    table = BestTable.of(candidates, ["gap", "dipole"], "The best of dyes")
    return text_of(table.table()).splitlines()


def test_units_and_the_level_are_told_once() -> None:
    lines = drawn(candidate("CCO", values=GAP), candidate("CO", values=GAP | {"gap": valued(3.9, 0.06, "eV")}))
    start = next(n for n, line in enumerate(lines) if line.startswith(" gap"))
    assert " ".join(lines[:start]).split() == f"The best of dyes at {LEVEL}".split(), "with that of the geometry"
    assert lines[start].split() == ["gap", "[eV]", "dipole", "[D]", "utility", "stands", "smiles"]
    assert "4.42 ± 0.06" in lines[start + 2] and "eV" not in lines[start + 2] and lines[start + 3].endswith("CO")


def test_values_of_two_levels_or_units_keep_them_in_their_rows() -> None:
    other = {"gap": valued(2.9, 0.06, "hartree", level="GFN2-xTB", rung="xtb")}
    lines = drawn(candidate("CCO", values=GAP), candidate("CO", values=other, hit=False, verified=False, p_hit=0.25))
    text = "\n".join(lines)
    assert lines[0] == "The best of dyes" and "P(hit)" in text and "25 %" in text
    assert " eV" in text and "hartree" in text


def test_each_property_of_a_row_has_its_whole_level() -> None:
    other = GAP | {"gap": valued(2.9, 0.06, "eV", level="GFN2-xTB//GFN2-xTB")}
    levels = f"GFN2-xTB//GFN2-xTB (gap), {LEVEL} (dipole)"
    rows = [candidate("CCO", values=GAP), candidate("CO", values=other)]
    table = BestTable.of(rows, ["gap", "dipole"], "The best of dyes")
    assert [table.plain(row)["level"] for row in rows] == [LEVEL, levels]
    assert [table.brief(row)["level"].replace(" //", "//") for row in rows] == [LEVEL, levels]
    assert table.title == "The best of dyes"
    assert BestTable.of(rows[1:], ["gap", "dipole"], "The best of dyes").title == f"The best of dyes at {levels}"


def test_a_missed_limit_names_its_property() -> None:
    missed = {"hit": False, "reason": "above_window", "detail": "dipole = 1.0 ± 0.6 D, objective dipole ≤ 0.5 D"}
    assert "dipole above window" in drawn(candidate("CCO", values=GAP, **missed))[4]


def test_a_measured_value_stands_beside_the_computed_one() -> None:
    lines = drawn(candidate("CCO", values=GAP, imported=(imported("4.10"),)), candidate("CO", values=GAP))
    assert "measured gap [eV]" in lines[2] and "4.42 ± 0.06 4.10 ± 0.10 1.0 ± 0.6" in " ".join(lines[4].split())


def test_values_measured_in_two_solvents_have_a_column_each() -> None:
    in_water = imported("4.10").model_copy(update={"level": "experiment(water)"})
    in_toluene = imported("4.30").model_copy(update={"level": "experiment(toluene)"})
    rows = [candidate("CCO", values=GAP, imported=(in_water, in_toluene)), candidate("CO", values=GAP)]
    table = BestTable.of(rows, ["gap"], "The best")
    first = table.plain(rows[0])
    assert str(first["measured [experiment(water)]"]).startswith("4.10")
    assert str(first["measured [experiment(toluene)]"]).startswith("4.30") and "measured" not in first
    assert table.plain(rows[1])["measured [experiment(water)]"] is None


def test_several_measured_values_of_a_candidate_are_listed_below() -> None:
    one = candidate("CCO", values=GAP, imported=(imported("4.10"), imported("4.2")))
    table = BestTable.of([one], ["gap"], "The best")
    assert "measured" not in text_of(table.table())
    assert [note for note in table.notes() if note.startswith("CCO: gap = 4.10 ± 0.10 eV  [experiment] from lab.csv")]
    assert BestTable.of([candidate("C", values=GAP, imported=(imported("4.1"),))], ["gap"], "").properties == ["gap"]


def test_a_candidate_with_several_measured_values_takes_the_column_from_no_other() -> None:
    one = candidate("CCO", values=GAP, imported=(imported("4.10"),))
    two = candidate("CO", values=GAP, imported=(imported("4.2"), imported("4.3")))
    table = BestTable.of([one, two], ["gap"], "The best")
    cells = [table.plain(row)["measured"] for row in table]
    assert str(cells[0]).startswith("4.10") and cells[1] == "2 values"
    lines = [note for note in table.notes() if "from lab.csv" in note]
    assert [line.split(":")[0] for line in lines] == ["measured gap", "CO", "CO"]


FIGURES = {"n": 19, "mean_error": 0.1, "chemistry": "dyes", "reference": "experiment", "source": "b.json", **UNSTATED}
"""The figures of a benchmark, without its mean absolute error."""


def test_the_margin_is_negative_for_a_value_outside_of_a_method_without_a_known_error() -> None:
    known = EstimatedError.of(None, MethodFigures(mean_absolute_error=0.4, unit="eV", **FIGURES))
    more = {
        "rung": "dft",
        "unit": "eV",
        "repeatability": 0.06,
        "uncertainty_kind": "class",
        "isomer": None,
        "method_unknown": None,
        "p_inside": None,
    }
    inside = LimitMargin(property="gap", margin=0.5, method=known, **more)
    outside = LimitMargin(property="dipole", margin=-4.2, method=None, **more)
    fallen = candidate("CCO", values=GAP, hit=False, margins=(inside, outside))
    assert nearest_limit(fallen, True) == {"margin": "dipole: -4.20"}
    assert nearest_limit(candidate("CCO", values=GAP, margins=(inside,)), False) == {"margin": "0.5 ± 0.4 (method)"}
    unknown = inside.model_copy(update={"method": None})
    assert nearest_limit(candidate("CCO", values=GAP, margins=(unknown,)), False) == {"margin": "0.50"}


def test_the_chance_within_the_limits_has_a_column() -> None:
    rows = [
        candidate("CCO", values=GAP, p_limits=0.583),
        candidate("CO", values=GAP, p_limits_unknown=("gap",)),
        candidate("C", values=GAP),
    ]
    table = BestTable.of(rows, ["gap"], "The best")
    assert [table.plain(row)["P(limits)"] for row in table] == [0.583, None, None]
    shown = text_of(table.table())
    assert "P(limits)" in shown and "58 %" in shown and "unknown" in shown
    assert best_record(rows[0])["p_limits"] == 0.583


def test_a_line_says_whose_chance_comes_from_a_measured_value() -> None:
    rows = [candidate(f"{'C' * n}O", values=GAP, p_limits=0.01, p_limits_measured=("gap",)) for n in range(1, 6)]
    rows.append(candidate("CO", values=GAP, p_limits_unknown=("gap",), p_limits_measured=("gap",)))
    notes = list(BestTable.of(rows, ["gap"], "The best").notes())
    assert "CO, CCO, CCCO and 2 more: P(limits) comes from the measured gap, not from the method's error" in notes
    assert "CO: P(limits) is unknown: gap was measured without an uncertainty" in notes


def test_into_a_pipe_go_plain_numbers_with_their_digits_and_the_level() -> None:
    one = candidate("CCO", values=GAP, imported=(imported("4.10"),))
    table = BestTable.of([one], ["gap", "dipole"], "The best").plain_table()
    cells = {str(column.header): str(next(iter(column.cells))) for column in table.columns}
    assert cells["gap [eV]"] == "4.42" and cells["gap uncertainty [eV]"] == "0.06"
    assert cells["measured gap [eV]"] == "4.10" and cells["level"] == LEVEL and cells["P(hit)"] == "1"


@pytest.mark.parametrize(
    ("method", "said"), [(None, "the method's error is not known for ions"), (0.4, "mean absolute error 0.4 eV")]
)
def test_one_line_tells_how_sure_the_values_of_a_rung_are(method: float | None, said: str) -> None:
    error = method and EstimatedError.of(None, MethodFigures(mean_absolute_error=method, unit="eV", **FIGURES))
    margin = LimitMargin(
        property="gap",
        rung="dft",
        margin=0.1,
        unit="eV",
        repeatability=0.06,
        uncertainty_kind="class",
        isomer=None,
        method=error,
        method_unknown=None if error else "not known for ions",
        p_inside=None,
    )
    lines = list(certainty_lines([candidate("CCO", values=GAP, margins=(margin,))], ["gap", "dipole"]))
    assert (
        lines[0].startswith("gap at dft: ± is the repeatability over conformer searches, usual for such molecules")
        and said in lines[0]
    )
    usual = "± is the repeatability over conformer searches, usual for such molecules, not computed for each"
    assert lines[1] == f"dipole at dft: {usual}"


def test_the_notes_name_the_isomer_that_was_computed_and_whose_uncertainty_it_is() -> None:
    isomer = IsomerAnswer(smiles="C/C=C/C#N", label="E", possible=2, different=2, is_upper_bound=False)
    values = {"gap": valued(4.42, 0.06, "eV", isomer=isomer)}
    names = {"id": ("A-1",), "standardised": ("hydrogen chloride removed",)}
    notes = list(BestTable.of([candidate("CC=CC#N", values=values, names=names)], ["gap"], "").notes())
    assert "A-1 names another form than CC=CC#N: hydrogen chloride removed" in notes
    told = "computed for E (C/C=C/C#N), one of 2 stereoisomers; others may have other values"
    assert f"CC=CC#N (A-1): {told}" in notes
    assert any(
        note.endswith("not computed for each; a value is that of one isomer where the stereo is undefined")
        for note in notes
    )


def test_candidates_of_the_lowest_utility_are_said_to_be_ordered_by_distance() -> None:
    far = [candidate(smiles, values=GAP, hit=False, utility=0.001) for smiles in ("CCO", "CO")]
    near = [candidate("C", values=GAP, hit=False, utility=0.4)]
    [line] = BestTable.of([*near, *far], ["gap"], "").unranked()
    assert line.startswith("2 candidates have the lowest utility, 0.001:") and "come first" in line
    assert next(BestTable.of([*near, *far], ["gap"], "").notes()) == line
    assert not list(BestTable.of([*near, far[0]], ["gap"], "").unranked())


def test_the_words_are_those_of_the_subject() -> None:
    crystal = {"kind": "crystal", "text": "NaCl Fm-3m", "formula": "NaCl"}
    [line] = certainty_lines([candidate("CCO", values={"gap": GAP["gap"]}, **crystal)], ["gap"])
    assert line.startswith("gap at dft: ± is the repeatability over starting structures, usual for such crystals")


def test_estimated_cells_are_named() -> None:
    subject = subject_of("crystal")
    halite = read_crystal("rocksalt: Na Cl")
    larger = read_crystal(halite.structure.copy().scale_lattice(40).to(fmt="cif"))
    rows = [
        candidate("CCO", values=GAP, kind="crystal", text=f"{name} Fm-3m", drawn_from=subject.notation(crystal))
        for name, crystal in (("A", halite), ("B", larger), ("C", halite), ("D", halite), ("E", halite))
    ]
    [line] = caveat_lines([*rows, candidate("CO", values=GAP)])
    assert line.startswith("A Fm-3m, C Fm-3m, D Fm-3m and 1 more: the volume of the proposed cell is an estimate")
