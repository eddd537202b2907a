"""A campaign is entered once: the answer says how, and what its user is told before it runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sciagent import Campaign
from sciagent.api import campaign as campaign_module
from sciagent.campaign.core import calibrate_to_imported_values, create_and_open
from sciagent.campaign.core.create_and_open import Entered, EntryKind, create_or_open, open_stored
from sciagent.campaign.file import campaign_spec
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.people.amend_pause_stop_and_resume import amend, amended_source
from sciagent.campaign.people.import_values import import_file
from sciagent.campaign.people.verify_calculate_and_add import add, proposals_of_file, verify_one
from sciagent.domain.display_units import Column
from sciagent.domain.properties_and_levels import Level
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger
from tests.support.typed import told

AMIDES = """
campaign: amides
subject: molecule
objectives: [{property: logp, min: -9}]
ladder: [{verifier: molecule.checks}]
goal: {kind: hits, count: 5}
budget: {proposals: 4}
proposer:
  kind: enumerate
  reaction: '[C:1](=[O:2])[OX2H1].[NX3;H2,H1;!$(NC=O):3]>>[C:1](=[O:2])[N:3]'
  reactants: {1: ['CC(=O)O acetic acid', CCO ethanol], 2: [CN]}
scheduler: {kind: exhaustive}
"""


def entered(ledger: Ledger, folder: Path, text: str = AMIDES) -> Entered:
    return create_or_open(ledger, parse_spec(text, base=folder), text, "ann")


def test_it_is_created_opened_or_amended_and_reactants_that_cannot_react_are_named(
    ledger: Ledger, tmp_path: Path
) -> None:
    first = entered(ledger, tmp_path)
    assert (first.entry, first.amendments, first.calibrations) == (EntryKind.CREATED, (), ())
    left_out = ("reactant 1: 1 left out, without the group that the reaction needs there: ethanol",)
    assert first.left_out == left_out
    again = entered(ledger, tmp_path)
    assert (again.entry, again.amendments, again.left_out) == (EntryKind.OPENED, (), left_out)
    richer = entered(ledger, tmp_path, AMIDES.replace("proposals: 4", "proposals: 5"))
    assert (richer.entry, richer.amendments) == (EntryKind.AMENDED, ("budget.proposals: 4 -> 5",))
    assert richer.built.row.id == first.built.row.id
    assert open_stored(ledger, "amides", "ann").entry is EntryKind.OPENED


def test_a_file_from_before_an_amendment_undoes_nothing(ledger: Ledger, tmp_path: Path) -> None:
    entered(ledger, tmp_path)
    row = open_stored(ledger, "amides", "ann").built.row
    for changed in ({"goal_count": 6}, {"goal_count": 7}):
        text = amended_source(row, budget=["proposals=9"], **changed)
        amend(ledger, parse_spec(text, base=tmp_path), text, "bob", "more", [])
    stale = entered(ledger, tmp_path)
    assert (stale.entry, stale.amendments) == (EntryKind.OPENED, ())
    assert stale.kept == (
        "kept: goal.count is 7 by an amendment; the file still says 5",
        "kept: budget.proposals is 9 by an amendment; the file still says 4",
    )
    spec = stale.built.spec
    assert (spec.goal.count, spec.budget.proposals, stale.built.row.spec_hash) == (7, 9, spec.hash)
    with pytest.raises(
        UsageError, match=r'undo an amendment of "amides" and change something else:\n  goal.count: 7 ->'
    ):
        entered(ledger, tmp_path, AMIDES + "workers: 1\n")
    edited = AMIDES.replace("proposals: 4", "proposals: 10").replace("count: 5", "count: 7")
    assert entered(ledger, tmp_path, edited).amendments == ("budget.proposals: 9 -> 10",)
    amend(ledger, parse_spec(AMIDES, base=tmp_path), AMIDES, "bob", "back", [])
    back = entered(ledger, tmp_path)
    assert (back.built.spec.budget.proposals, back.kept) == (4, ())


def test_the_calibrations_are_those_of_the_values_that_were_imported(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lab.csv"
    file.write_text("smiles,logp\n" + "".join(f"{'C' * n},{n}\n" for n in range(1, 10)))
    import_file(ledger, file, columns=[Column("logp", "logp")], level=Level("experiment"))
    plain = AMIDES.replace("amides", "fits").replace("min: -9", "min: -9, calibrate: {from: measured, kind: offset}")
    uncalibrated = parse_spec(AMIDES, base=tmp_path)
    for n in range(1, 10):
        verify_one(ledger, uncalibrated, "C" * n)
    made = entered(ledger, tmp_path, plain)
    monkeypatch.setattr(create_and_open, "fits_of", None)  # those of the creation are not made again
    [line] = made.calibrations
    assert line.startswith("logp of molecule_checks")
    monkeypatch.setattr(create_and_open, "fits_of", calibrate_to_imported_values.fits_of)
    assert entered(ledger, tmp_path, plain).calibrations == (line,)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions that enter a campaign or validate a file, once for each call."""
    called: list[str] = []

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def count(*given: Any, **named: Any) -> Any:
            called.append(function.__name__)
            return function(*given, **named)

        return count

    once = counted(create_or_open)
    monkeypatch.setattr(create_and_open, "create_or_open", once)
    monkeypatch.setattr(campaign_module, "create_or_open", once)
    monkeypatch.setattr(campaign_spec, "validated", counted(campaign_spec.validated))
    return called


def test_a_run_reads_and_enters_its_campaign_once(tmp_path: Path, calls: list[str]) -> None:
    (tmp_path / "amides.yaml").write_text(AMIDES, encoding="utf-8")
    url = str(tmp_path / "amides.db")
    shown = told("run", str(tmp_path / "amides.yaml"), "--ledger", url, "--no-report")
    assert "starting amides: " in shown and "reactant 1: 1 left out" in shown
    assert calls == ["validated", "create_or_open"]
    calls.clear()
    assert "going on with amides: " in told("resume", "amides", "--ledger", url, "--no-report")
    assert calls == ["validated", "create_or_open"]
    calls.clear()
    with Campaign.from_yaml(tmp_path / "amides.yaml", url) as campaign:
        campaign.run(progress=False)
    assert calls == ["validated", "create_or_open"]
    campaign.ledger.close()


SCREEN = """
campaign: catalogue
subject: molecule
objectives: [{property: logp, min: -9}]
ladder: [{verifier: molecule.checks}]
goal: {kind: hits}
budget: {core_seconds: 9}
proposer: {kind: screen, file: lib.csv, keep: [id, price]}
"""


@pytest.mark.parametrize("end", ["\n", ""])
def test_a_campaign_goes_on_after_rows_were_added_at_the_end_of_its_file(
    ledger: Ledger, tmp_path: Path, end: str
) -> None:
    file = tmp_path / "lib.csv"
    begun = f"id,price,smiles\nA,1,CCO\nB,2,CCN{end}"
    file.write_text(begun)
    first = entered(ledger, tmp_path, SCREEN)
    assert first.grown == []
    new_rows = "C,3,CCC\nD,4,OCC\n"
    file.write_text(f"{begun}{'' if end else chr(10)}{new_rows}")
    again = entered(ledger, tmp_path, SCREEN)
    assert (again.entry, again.amendments) == (EntryKind.OPENED, ())
    [line] = again.grown
    assert line.startswith("lib.csv has 2 rows at its end that catalogue lacks")
    assert f"sciagent add --file {file} --campaign catalogue --reason" in line
    [(_, proposer)] = again.built.spec.proposers
    assert again.built.make_script(proposer).total == 2, "its proposer ends where the file ended"
    assert open_stored(ledger, "catalogue", "ann").entry is EntryKind.OPENED
    proposals = list(proposals_of_file(again.built, file))
    assert [(given.text, given.names) for given in proposals] == [
        ("CCC", {"id": "C", "price": "3"}),
        ("OCC", {"id": "D", "price": "4"}),
    ]
    answers = list(add(again.built, proposals, "ann", "new rows of the supplier"))
    assert [answer.status for answer in answers] == ["new", "new"]
    assert entered(ledger, tmp_path, SCREEN).grown == [], "the campaign has them by now"
    file.write_text(f"{file.read_text()}E,5,CCF\nF,6,no molecule\n")
    [line] = entered(ledger, tmp_path, SCREEN).grown
    assert line.startswith("lib.csv has 2 rows at its end that catalogue lacks") and "to bring them in" in line
    latest = entered(ledger, tmp_path, SCREEN).built
    statuses = [answer.status for answer in add(latest, proposals_of_file(latest, file), "ann", "more new rows of his")]
    assert statuses == ["duplicate", "duplicate", "new", "refused"]
    assert entered(ledger, tmp_path, SCREEN).grown == [], "what was refused is not named again"


def test_a_file_that_changed_otherwise_is_another_campaign(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "lib.csv"
    file.write_text("id,price,smiles\nA,1,CCO\nB,2,CCN\n")
    entered(ledger, tmp_path, SCREEN)
    file.write_text("id,price,smiles\nA,1,CCO\nB,3,CCN\nC,3,CCC\n")
    with pytest.raises(UsageError, match="rows may be added at the end of the file of a screen"):
        entered(ledger, tmp_path, SCREEN)
