"""`sciagent import`: a file is checked whole, then written whole; every fault with its place."""

from __future__ import annotations

import datetime
import math
from pathlib import Path

import openpyxl
import pytest
import sqlalchemy as sa

from sciagent.campaign.people.import_values import ImportReport, import_file
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.candidate_and_its_names_in_files import identifier_text
from sciagent.domain.display_units import Column
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.errors import InputFileError, UnknownNameError, UsageError
from sciagent.report.explain_candidate import explain
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import reward_inputs
from sciagent.store.results import candidates, evidence
from tests.support import rows
from tests.support.reported import Maker
from tests.support.rows import new_evidence

LEVEL = Level("experiment", phase="gas")
GAP = Column("gap", "homo_lumo_gap")
GOOD = "smiles,gap\nCCO,3.10\nc1ccccc1,6.9\nC,12\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gaps.csv"


def run(ledger: Ledger, file: Path, text: str | bytes, *columns: Column, **more: object) -> ImportReport:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return import_file(ledger, file, columns=columns or (GAP,), level=LEVEL, who="Ada", **more)  # type: ignore[arg-type]


def counts(ledger: Ledger) -> tuple[int, int, int]:
    """Rows of (candidate, evidence, quantity)."""
    with ledger.read() as connection:
        n = [
            connection.execute(sa.select(sa.func.count()).select_from(x)).scalar_one()
            for x in (t.candidate, t.evidence, t.quantity)
        ]
    return n[0], n[1], n[2]


def values(ledger: Ledger) -> dict[str, list[float]]:
    """{text: current values, by replicate}."""
    e = t.current_evidence.c
    query = sa.select(t.candidate.c.text, e.id).join(t.candidate, t.candidate.c.id == e.candidate_id)
    found: dict[str, list[float]] = {}
    with ledger.read() as connection:
        for text, id_ in connection.execute(query.order_by(e.replicate)):
            found.setdefault(text, []).extend(m.quantity.value for m in rows.recorded(connection, id_).measured)
    return found


def quantities(ledger: Ledger) -> list[sa.RowMapping]:
    with ledger.read() as connection:
        return list(connection.execute(sa.select(t.quantity).order_by(t.quantity.c.id)).mappings())


def test_a_good_file(ledger: Ledger, file: Path) -> None:
    report = run(ledger, file, GOOD)
    assert (report.rows, report.recorded, report.known, report.revised, report.faults) == (3, 3, 0, 0, [])
    assert values(ledger) == {"CCO": [3.1], "c1ccccc1": [6.9], "C": [12.0]}
    with ledger.read() as connection:
        row = connection.execute(sa.select(t.evidence)).mappings().first()
    assert row is not None and (row["verifier"], row["who"], row["reusable"]) == ("import", "Ada", True)
    assert row["source"].startswith("gaps.csv sha256:")
    assert quantities(ledger)[0]["as_typed"] == "3.10"


def test_a_phase_in_which_nothing_is_computed_is_remarked_on(ledger: Ledger, tmp_path: Path) -> None:
    made = Maker(ledger, tmp_path)
    made.enter(("CO",))
    computed = Measured("dipole", Level("GFN2-xTB", phase="acetonitrile", geometry="ETKDG"), Quantity(1.7, "D", 0.1))
    file = tmp_path / "lab.csv"
    file.write_text("smiles,mu\nCO,1.7\n")

    def remark(phase: str) -> str:
        level = Level("experiment", phase=phase)
        return import_file(ledger, file, columns=[Column("mu", "dipole")], level=level).remark

    assert remark("ACN") == "", "nothing is computed yet"
    with ledger.begin() as connection:
        evidence.record(connection, [new_evidence(made.ids[0], computed)])
    assert remark("MeCN") == remark("gas") == remark("") == ""
    assert remark("ACN") == (
        'no computed value of this ledger is in "acn"; values in acetonitrile are not compared with these'
    )


def test_the_same_file_again_changes_nothing(ledger: Ledger, file: Path) -> None:
    run(ledger, file, GOOD)
    before = counts(ledger)
    report = run(ledger, file, "\ufeff" + GOOD.replace("\n", "\r\n"))  # as a spreadsheet saves it
    assert (report.recorded, report.known) == (0, 3) and counts(ledger) == before == (3, 3, 3)


def test_each_row_may_have_its_own_unit_and_uncertainty(ledger: Ledger, file: Path) -> None:
    text = "smiles,gap,unit,sigma\nC,0.5,hartree,0.01\nCC,9500,meV,\nCCC,9,eV,0.2\n"
    run(ledger, file, text, Column("gap", "homo_lumo_gap", "unit", "sigma"))
    found = quantities(ledger)
    assert [q["value"] for q in found] == pytest.approx([13.605693, 9.5, 9.0])
    assert [q["uncertainty"] for q in found] == [pytest.approx(0.27211386), None, 0.2]
    assert {q["unit"] for q in found} == {"eV"}
    assert [q["as_typed"] for q in found] == ["0.5 hartree", "9500 meV", "9 eV"]


def test_an_uncertainty_for_all_rows_is_in_the_unit_given(ledger: Ledger, file: Path) -> None:
    run(ledger, file, "smiles,gap\nC,9500\n", Column("gap", "homo_lumo_gap", "meV", "100"))
    assert quantities(ledger)[0]["uncertainty"] == pytest.approx(0.1)


def test_censored_values(ledger: Ledger, file: Path) -> None:
    run(ledger, file, "smiles,gap\nC,< 0.5\nCC,>5\n")
    assert [(q["value"], q["censoring"]) for q in quantities(ledger)] == [
        (0.5, Censoring.BELOW),
        (5.0, Censoring.ABOVE),
    ]


def test_a_molecule_that_stands_twice_has_replicates(ledger: Ledger, file: Path) -> None:
    report = run(ledger, file, "smiles,gap\nCCO,3.0\nOCC,3.2\nC,1\nC(O)C,3.4\n")
    assert (report.rows, report.recorded) == (4, 4)
    assert values(ledger) == {"CCO": [3.0, 3.2, 3.4], "C": [1.0]}


def test_empty_cells_are_not_zero(ledger: Ledger, file: Path) -> None:
    report = run(ledger, file, "smiles,gap,mu\nC,,\nCC,3,\nCCC\n", GAP, Column("mu", "dipole"))
    assert (report.rows, report.recorded, report.empty) == (3, 1, 5)
    assert counts(ledger) == (1, 1, 1)


@pytest.mark.parametrize(
    ("row", "column", "says"),
    [
        ("CC,nan,eV", 2, "gap: not_finite"),
        ("CC,inf,eV", 2, "gap: not_finite"),
        ("CC,1e999,eV", 2, "gap: not_finite"),
        ("CC,high,eV", 2, 'gap: "high" is not a number'),
        ("CC,1_5,eV", 2, 'gap: "1_5" is not a number'),
        ("CC,<,eV", 2, 'gap: "" is not a number'),
        ("CC,3,5,eV", 4, "more cells than the header has"),
        ('CC,"3,5",eV', 2, "decimal sign"),
        ("CC,3,kJ", 2, 'homo_lumo_gap is not given in "kJ"'),
        ("CC,3,pH", 2, 'homo_lumo_gap is not given in "pH"'),
        ("CC,3,", 2, 'homo_lumo_gap is not given in ""'),
        ("CC,61,eV", 2, "outside what homo_lumo_gap can be"),
        ("CC,-2000,meV", 2, "outside what homo_lumo_gap can be"),
        ("C(C)(C)(C)(C)C,3,eV", 1, "smiles: valence"),
        ("C1CC,3,eV", 1, "smiles: unparsable"),
        (",3,eV", 1, "smiles: empty"),
        ("[Na+].[Cl-],3,eV", 1, "smiles: multiple_fragments"),
        ("C\0C,3,eV", 1, "smiles: "),
    ],
)
def test_a_bad_row_is_refused_at_its_place_and_nothing_is_written(
    ledger: Ledger, file: Path, row: str, column: int, says: str
) -> None:
    text = f"smiles,gap,unit\nC,12,eV\n{row}\nCCC,9,eV\n"
    by_row = Column("gap", "homo_lumo_gap", "unit")
    with pytest.raises(InputFileError) as caught:
        run(ledger, file, text, by_row)
    first = str(caught.value).splitlines()[0]
    assert first.startswith(f"{file}:3:{column}: ") and says in first
    assert "nothing was imported" in str(caught.value)
    assert counts(ledger) == (0, 0, 0)
    report = run(ledger, file, text, by_row, skip_bad=True)
    assert (report.rows, report.recorded, len(report.faults)) == (3, 2, 1) and report.faults[0] == first


def test_all_faults_are_shown_at_once_up_to_fifty(ledger: Ledger, file: Path) -> None:
    with pytest.raises(InputFileError) as caught:
        run(ledger, file, "smiles,gap\n" + "C,x\n" * 60)
    lines = str(caught.value).splitlines()
    assert [line.split(":")[-4] for line in lines[:2]] == ["2", "3"] and "and 10 more" in lines[50]


def test_a_missing_column_names_what_there_is(ledger: Ledger, file: Path) -> None:
    with pytest.raises(InputFileError, match=r'gaps\.csv:1:1: no column "gap"; did you mean "gaps"\?.*smiles, gaps'):
        run(ledger, file, "smiles,gaps\nC,1\n")
    with pytest.raises(InputFileError, match="two columns have the same name"):
        run(ledger, file, "smiles,gap,gap\nC,1,2\n")
    with pytest.raises(InputFileError, match="the header has: nothing"):
        run(ledger, file, "")


def test_a_property_is_given_by_one_column(ledger: Ledger, file: Path) -> None:
    with pytest.raises(UsageError, match="homo_lumo_gap is given twice"):
        run(ledger, file, "smiles,gap,gap2\nC,1,2\n", GAP, Column("gap2", "homo_lumo_gap"))
    with pytest.raises(UnknownNameError, match='did you mean "dipole"'):
        run(ledger, file, GOOD, Column("gap", "dipol"))


def test_a_file_in_no_known_encoding_says_where(ledger: Ledger, file: Path) -> None:
    rows_ = "".join(f"{'C' * (i + 1)},{i}\n" for i in range(40)).encode()
    with pytest.raises(InputFileError, match=r"gaps\.csv:42:1: neither UTF-8 nor Windows-1252"):
        run(ledger, file, b"smiles,gap\n" + rows_ + b"CC,3\x81\n")
    assert counts(ledger) == (0, 0, 0)


def test_a_workbook_and_a_german_csv_give_the_values_of_the_plain_file(ledger: Ledger, tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for cells in (["smiles", "gap", "unit"], ["CCO", 3.1, "eV"], ["c1ccccc1", "6,9", "eV"], ["C", 12, "eV"]):
        book.active.append(cells)
    book.save(tmp_path / "gaps.xlsx")
    column = Column("gap", "homo_lumo_gap", "unit")
    report = import_file(ledger, tmp_path / "gaps.xlsx", columns=[column], level=LEVEL, who="Ada")
    assert report.recorded == 3 and values(ledger) == {"CCO": [3.1], "c1ccccc1": [6.9], "C": [12.0]}
    german = "smiles;gap;unit\r\nCCO;3,10;eV\r\nc1ccccc1;6,9;eV\r\nC;12;eV\r\n"
    report = run(ledger, tmp_path / "gaps.csv", german.encode("utf-16"), column)
    assert (report.recorded, report.known) == (0, 3)


def test_a_fault_in_a_workbook_names_its_cell(ledger: Ledger, tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for cells in (["smiles", "gap"], ["CCO", 3.1], ["C", "high"], ["CC", datetime.date(2026, 4, 3)], ["CCC", "1,234"]):
        book.active.append(cells)
    file = tmp_path / "gaps.xlsx"
    book.save(file)
    with pytest.raises(InputFileError) as caught:
        import_file(ledger, file, columns=[GAP], level=LEVEL)
    high, date, both, _ = str(caught.value).splitlines()
    assert high == f'{file}:B3: gap: "high" is not a number (use a point as decimal sign)'
    assert date.startswith(f"{file}:B4: gap: Excel took what was typed for a date, 2026-04-03")
    assert both == f'{file}:B5: gap: "1,234" is 1234 or 1.234; write 1234, or 1,2340'
    assert counts(ledger) == (0, 0, 0)


def test_a_file_that_is_not_there(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        import_file(ledger, tmp_path / "nowhere.csv", columns=[GAP], level=LEVEL)


def test_an_identifier_stays_with_the_molecule_as_a_remark(ledger: Ledger, file: Path) -> None:
    with ledger.begin() as connection:
        campaign = rows.campaign(connection)
        ethanol = next(iter(candidates.enter(connection, [parse_molecule("CCO")]).values()))
        candidates.enter_names(connection, campaign.id, [(ethanol, {"name": "ethanol"})])
    text = "id,smiles,gap\n77,OCC,3.1\n"
    run(ledger, file, text)
    run(ledger, file, text)
    with ledger.read() as connection:
        names = candidates.names_of(connection, [ethanol], [campaign.id])[ethanol]
    assert names == {"name": ("ethanol",), "imported.id": ("77",)} and identifier_text(names) == "ethanol"


def test_a_changed_value_is_refused_without_a_reason(ledger: Ledger, file: Path) -> None:
    run(ledger, file, GOOD)
    changed = GOOD.replace("3.10", "3.20") + "CCC,8\n"
    with pytest.raises(UsageError, match=r"CCO: the ledger has another value.*--revise"):
        run(ledger, file, changed)
    assert counts(ledger) == (3, 3, 3), "the new row was not written either"


def test_a_changed_value_supersedes_with_a_reason(ledger: Ledger, file: Path) -> None:
    run(ledger, file, GOOD)
    changed = GOOD.replace("3.10", "3.20") + "CCC,8\n"
    report = run(ledger, file, changed, revise="recalibrated")
    assert (report.recorded, report.revised, report.known) == (2, 1, 2)
    assert values(ledger) == {"CCO": [3.2], "c1ccccc1": [6.9], "C": [12.0], "CCC": [8.0]}
    again = run(ledger, file, changed)
    assert (again.recorded, again.known) == (0, 4)
    third = run(ledger, file, changed.replace("3.20", "3.30"), revise="again")
    assert third.revised == 1 and values(ledger)["CCO"] == [3.3]
    with ledger.read() as connection:
        c = t.evidence.c
        query = sa.select(c.revision, c.why, c.supersedes_id.is_not(None)).where(c.revision > 0).order_by(c.revision)
        assert [tuple(r) for r in connection.execute(query)] == [(1, "recalibrated", True), (2, "again", True)]


def test_a_dry_run_writes_nothing(ledger: Ledger, file: Path) -> None:
    report = run(ledger, file, GOOD, dry_run=True)
    assert (report.rows, report.recorded) == (3, 0) and counts(ledger) == (0, 0, 0)


def test_salts_give_their_parent_when_told(ledger: Ledger, file: Path) -> None:
    run(ledger, file, "smiles,gap\nCCN.Cl,3\n", standardise="parent")
    assert values(ledger) == {"CCN": [3.0]}


def test_another_level_is_another_evidence(ledger: Ledger, file: Path) -> None:
    run(ledger, file, GOOD)
    report = import_file(ledger, file, columns=[GAP], level=Level("PBE0"), who="Ada")
    assert report.recorded == 3 and counts(ledger) == (3, 6, 6)


def test_the_same_values_under_another_name_are_known(ledger: Ledger, file: Path, tmp_path: Path) -> None:
    text = "smiles,gap\nCCO,3.10\nCCO,3.10\nC,12\n"
    assert run(ledger, file, text).recorded == 3
    again = run(ledger, tmp_path / "renamed.csv", text)
    assert (again.recorded, again.known) == (0, 3)
    more = run(
        ledger, tmp_path / "more.csv", "smiles,gap\nOCC,3.10\nCCO,3.1\nCCO,3.10\nCCO,3.2\nN,12\n", replicate=True
    )
    assert (more.recorded, more.known) == (3, 2)  # a third replicate, another value, another molecule
    other = import_file(ledger, file, columns=(GAP,), level=Level("PBE0", "def2-SVP"), who="Ada")
    assert other.recorded == 3


@pytest.mark.parametrize(
    ("first", "then"),
    [(("gap", "mu"), ("gap",)), (("gap",), ("gap", "mu")), (("gap",), ("mu",)), (("mu",), ("mu", "gap"))],
)
@pytest.mark.parametrize("name", ["gaps.csv", "copy.csv"])
def test_a_value_that_comes_again_with_other_columns_is_recorded_once(
    first: tuple[str, ...], then: tuple[str, ...], name: str, ledger: Ledger, file: Path, tmp_path: Path
) -> None:
    columns = {"gap": GAP, "mu": Column("mu", "dipole")}
    text = "smiles,gap,mu\nCCO,3.1,1.7\nCCO,3.2,1.7\nC,12,\n"
    run(ledger, file, text, *(columns[each] for each in first))
    run(ledger, tmp_path / name, text, *(columns[each] for each in then))
    wanted = {*first, *then}
    ethanol = [3.1, 3.2] * ("gap" in wanted) + [1.7, 1.7] * ("mu" in wanted)
    assert sorted(values(ledger)["CCO"]) == sorted(ethanol)
    assert values(ledger).get("C", []) == [12.0] * ("gap" in wanted)
    for again in (first, then):
        assert run(ledger, file, text, *(columns[each] for each in again)).recorded == 0
    if "gap" in then:
        corrected = text.replace("3.1,", "3.15,")
        with pytest.raises(UsageError, match="--revise"):
            run(ledger, file, corrected, *(columns[each] for each in then))


def test_a_value_that_came_with_other_columns_is_corrected_once(ledger: Ledger, file: Path, tmp_path: Path) -> None:
    text = "smiles,gap,mu\nCCO,3.1,1.7\n"
    run(ledger, file, text, GAP, Column("mu", "dipole"))
    run(ledger, file, text, GAP)
    run(ledger, tmp_path / "corrected.csv", "smiles,gap\nCCO,3.15\n", revise="typed wrongly")
    assert sorted(values(ledger)["CCO"]) == [1.7, 3.15]


def test_a_value_that_came_before_the_other_columns_is_corrected_once(ledger: Ledger, file: Path) -> None:
    columns = (GAP, Column("mu", "dipole"))
    run(ledger, file, "smiles,gap,mu\nCCO,3.1,1.7\n", GAP)
    run(ledger, file, "smiles,gap,mu\nCCO,3.1,1.7\n", *columns)
    report = run(ledger, file, "smiles,gap,mu\nCCO,3.15,1.7\n", *columns, revise="typed wrongly")
    assert (report.recorded, report.revised) == (1, 1) and sorted(values(ledger)["CCO"]) == [1.7, 3.15]


def test_a_row_that_is_corrected_to_the_value_of_another_file_stays_a_measurement(
    ledger: Ledger, file: Path, tmp_path: Path
) -> None:
    run(ledger, file, "smiles,gap\nCCO,3.1\n")
    run(ledger, tmp_path / "second.csv", "smiles,gap\nCCO,3.2\n", replicate=True)
    run(ledger, file, "smiles,gap\nCCO,3.2\n", revise="typed wrongly")
    assert values(ledger)["CCO"] == [3.2, 3.2]


def test_a_cell_that_was_empty_may_be_filled_without_a_reason(ledger: Ledger, file: Path) -> None:
    columns = (GAP, Column("mu", "dipole"))
    run(ledger, file, "smiles,gap,mu\nCCO,3.1,\n", *columns)
    report = run(ledger, file, "smiles,gap,mu\nCCO,3.1,1.7\n", *columns)
    assert (report.recorded, report.revised) == (1, 1) and sorted(values(ledger)["CCO"]) == [1.7, 3.1]
    with pytest.raises(UsageError, match="--revise"):
        run(ledger, file, "smiles,gap,mu\nCCO,,1.7\n", *columns)


def test_another_uncertainty_is_another_statement(ledger: Ledger, file: Path, tmp_path: Path) -> None:
    run(ledger, file, GOOD)
    column = Column("gap", "homo_lumo_gap", uncertainty="0.1")
    assert run(ledger, tmp_path / "sure.csv", GOOD, column).recorded == 3


def test_a_file_states_what_its_values_cost(ledger: Ledger, file: Path) -> None:
    text = "smiles,gap,slots\nCCO,3.10,2\nc1ccccc1,6.9,\nC,12,0.5\n"
    run(ledger, file, text, costs={"money": "40.1", "lab_slots": "slots"})
    run(ledger, file, text, costs={"money": "99"})  # the values are known already, and so is their cost
    with ledger.read() as connection:
        e = t.evidence.c
        rows = connection.execute(sa.select(e.id, e.watermark, t.attempt.c.watermark).join(t.attempt)).all()
        costs = reward_inputs.shares(connection, [row[0] for row in rows])
        top = connection.execute(sa.select(sa.func.max(e.watermark))).scalar()
        by_smiles = {
            found.smiles: found.imported for id_ in (1, 2, 3) for found in [explain(connection, id_, [], ledger)]
        }
    assert list(costs.values()) == [
        {"lab_slots": 2.0, "money": 40.1},
        {"money": 40.1},
        {"lab_slots": 0.5, "money": 40.1},
    ]
    assert {ended for _, _, ended in rows} == {top}
    assert [value.cost_text for value in by_smiles["CCO"]] == ["2 lab_slots, 40.1 EUR"]
    assert len(rows) == 3


@pytest.mark.parametrize(
    ("costs", "place", "said"),
    [
        ({"mony": "4"}, None, 'unknown resource "mony".*did you mean "money"'),
        ({"money": "eur"}, ":2:1:", '"eur" is not a number.*no column either'),
        ({"money": "price"}, ":3:3:", '"dear" is not a number'),
        ({"money": "-3"}, ":2:1:", "not a finite, non-negative number"),
    ],
)
def test_a_cost_that_makes_no_sense_is_refused(
    ledger: Ledger, file: Path, costs: dict[str, str], place: str | None, said: str
) -> None:
    with pytest.raises((UsageError, InputFileError), match=said) as refused:
        run(ledger, file, "smiles,gap,price\nCCO,3.10,4\nC,12,dear\n", costs=costs)
    assert place is None or f"{file.name}{place}" in str(refused.value)
    assert counts(ledger) == (0, 0, 0)


def test_a_mass_by_volume_is_converted_by_the_molar_mass_of_each_molecule(ledger: Ledger, file: Path) -> None:
    column = Column("s", "log_molar_solubility", "mg/L")
    run(ledger, file, "smiles,s\nc1ccccc1,1780\nCCCCCC,9.5\n", column)
    masses = {"c1ccccc1": 78.114, "CCCCCC": 86.178}  # g/mol
    expected = {"c1ccccc1": math.log10(1.78 / masses["c1ccccc1"]), "CCCCCC": math.log10(0.0095 / masses["CCCCCC"])}
    assert values(ledger) == {text: [pytest.approx(value, abs=1e-4)] for text, value in expected.items()}
