"""A campaign as one object: opened, run, stepped, stopped and asked, in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent import Campaign, Ledger
from sciagent.errors import CampaignError, SpecError, UnknownNameError, UsageError
from tests.api.conftest import toy_energy, toy_keys
from tests.support.campaigns import sciagent


def test_it_runs_to_its_end_and_a_second_run_finds_nothing_left(toys: Campaign) -> None:
    assert toys.run(progress=False).state == "finished"
    assert [one.smiles for one in toys.best(2) if one.hit] == ["c1ccccc1", "CC(C)(C)C"]
    before = toys.status().spent
    assert toys.run(progress=False).state == "finished"
    assert toys.status().spent["core_seconds"] == before["core_seconds"]


@pytest.mark.parametrize("n", ["three", 0, 2.5])
def test_best_takes_a_number_of_candidates(toys: Campaign, n: object) -> None:
    with pytest.raises(UsageError, match=r"such as best\(10\), not "):
        toys.best(n)  # type: ignore[arg-type]


def test_the_same_arguments_take_up_the_same_campaign(toys: Campaign, tmp_path: Path) -> None:
    toys.run(progress=False)
    again = Campaign(**toy_keys(ledger=toys.ledger))
    assert again.status().candidates == 5 and again.amended == []
    richer = Campaign(**toy_keys(ledger=toys.ledger, budget={"core_seconds": 90}))
    assert richer.amended == ["budget.core_seconds: 60.0 -> 90.0"]
    with pytest.raises(UsageError, match=r"with another spec:\n  ladder\[toy\]\.settings\.scale: 1\.0 -> 2\.0"):
        ladder = [{"rung": "checks", "verifier": "molecule.checks"}]
        ladder.append({"rung": "toy", "verifier": toy_energy, "settings": {"scale": 2}})
        Campaign(**toy_keys(ledger=toys.ledger, ladder=ladder))


def test_a_run_keeps_what_others_have_amended(toys: Campaign) -> None:
    Campaign(**toy_keys(ledger=toys.ledger, budget={"core_seconds": 90}))
    assert toys.run(progress=False).budget["core_seconds"] == 90


def test_every_mistake_is_named_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as raised:
        Campaign(**toy_keys(ledger=tmp_path / "x.db", base=tmp_path, goal={"kind": "hitz"}, colour="red"))
    lines = str(raised.value).splitlines()
    assert any(line.startswith("Campaign(...): goal") for line in lines)
    assert any(line.startswith("Campaign(...): colour: unknown key") for line in lines)
    assert not (tmp_path / "x.db").exists()


def test_steps_hold_the_lease_until_the_campaign_is_left(toys: Campaign) -> None:
    with toys:
        assert toys.step() == "running"
        with pytest.raises(CampaignError, match="driven"):
            Campaign.open("toys", toys.ledger).step()
    assert toys.state == "interrupted"
    assert Campaign.open("toys", toys.ledger).run(progress=False).state == "finished"


def test_nobody_is_told_to_stop_what_does_not_run(done: Campaign) -> None:
    with pytest.raises(UsageError, match="there is nothing to stop"):
        done.stop()


def test_a_function_of_this_process_stays_in_it(toys: Campaign) -> None:
    with pytest.raises(UsageError, match="toy is a function of this process"):
        toys.run(executor="ledger", progress=False)


def test_a_person_adds_and_verifies(toys: Campaign) -> None:
    assert [one.status for one in toys.add(["CCCCC", "CCO", "C(C"])] == ["new", "new", "refused"]
    result = toys.verify("CCCCCC")
    assert (result.verdict, str(result.values["toy_energy"])) == ("pass", "6.0 ± 0.2 kJ/mol")
    assert toys.verify("CCCCCC").rungs[-1].reused
    assert toys.status().candidates == 2, "what is verified does not enter the campaign"


def test_what_is_known_of_a_candidate_is_explained(done: Campaign) -> None:
    told = done.explain("OCC")
    assert told.key is not None and "below_window" in repr(told)
    with pytest.raises(UsageError, match="is not in campaign"):
        done.explain("CCCCCCC")


def test_the_report_is_written_and_linked(done: Campaign, tmp_path: Path) -> None:
    report = done.report(tmp_path / "toys.html")
    assert report.path.stat().st_size > 10_000
    assert f'href="{report.path}"' in report._repr_html_()


def test_a_campaign_of_the_ledger_is_found_by_name(done: Campaign) -> None:
    assert Ledger(done.ledger.store.url.database).campaign().name == "toys"
    with pytest.raises(UnknownNameError, match='did you mean "toys"'):
        Campaign.open("toy", done.ledger)


def test_a_file_is_entered_when_it_is_opened_or_when_it_is_run(tmp_path: Path) -> None:
    (tmp_path / "molecules.csv").write_text("smiles\nCCO\n")
    (tmp_path / "one.yaml").write_text(
        "campaign: one\nsubject: molecule\nobjectives: [{property: logp, min: 0}]\n"
        "ladder: [{verifier: molecule.checks}]\ngoal: {kind: hits}\nbudget: {proposals: 3}\n"
        "proposer: {kind: screen, file: molecules.csv}\n"
    )
    later = Campaign.from_yaml(tmp_path / "one.yaml", tmp_path / "one.db", enter=False)
    assert "not in a ledger yet" in repr(later) and len(later.ledger.campaigns()) == 0
    assert later.verify("CCO").verdict == "fail" and len(later.ledger.campaigns()) == 0
    assert Campaign.from_yaml(tmp_path / "one.yaml", later.ledger).state == "created"


def test_another_process_shows_the_campaign_of_a_function_and_says_who_can_run_it(done: Campaign) -> None:
    folder = Path(str(done.ledger.store.url.database)).parent
    ledger = ("--ledger", "toys.db")
    assert "toy_energy = 3.0 ± 0.2 kJ/mol" in sciagent("explain", "CCO", *ledger, cwd=folder).stdout
    assert "6.0\t0.2" in sciagent("best", "toys", *ledger, cwd=folder).stdout
    refused = sciagent("resume", "toys", *ledger, cwd=folder, expect=2)
    assert "has the rung toy_energy, a function of a notebook or a script" in refused.stderr


def test_another_process_shows_what_was_measured_of_a_property_of_a_function(toys: Campaign, tmp_path: Path) -> None:
    toys.run(progress=False)
    (tmp_path / "m.csv").write_text("smiles,e\nCCO,3.5\nCCCCCC,6.1\n")
    ledger = ("--ledger", "toys.db")
    column = ("--value", "e=toy_energy[kJ/mol]", "--uncertainty", "e=0.1", "--method", "experiment")
    sciagent("import", "m.csv", *column, *ledger, cwd=tmp_path)
    best = sciagent("best", "toys", "--json", *ledger, cwd=tmp_path)
    measured = {each["smiles"]: [margin["property"] for margin in each["margins"]] for each in best if each["imported"]}
    assert measured["CCO"] == ["toy_energy"]
    Campaign(**toy_keys(name="others", ledger=toys.ledger))
    assert "toy_energy" in sciagent("compare", "toys", "others", *ledger, cwd=tmp_path).stdout
