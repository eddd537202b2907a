"""`sciagent lab`, as a chemist and a lab member type it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.typed import call, data, refused, told

CAMPAIGN = """
campaign: gaps
subject: molecule
seed: 1
objectives: [{property: homo_lumo_gap, window: [4.0, 4.6], unit: eV}]
ladder:
  - {rung: checks, verifier: molecule.checks}
  - rung: lab
    verifier: lab.measurement
    settings: {quantities: [homo_lumo_gap], method: UV-vis onset, conditions: {temperature: 25 °C}}
    lab: {ahead: 2, due_days: 14}
terminal: lab
goal: {kind: hits}
budget: {lab_slots: {amount: 9, per: week}, until: '2027-06-30'}
proposer: {kind: screen, file: molecules.csv}
scheduler: {kind: exhaustive}
workers: 1
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a campaign that waits for people."""
    folder = tmp_path_factory.mktemp("waiting")
    (folder / "molecules.csv").write_text("smiles\nOc1ccccc1\nCCO\n", encoding="utf-8")
    (folder / "gaps.yaml").write_text(CAMPAIGN, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("SCIAGENT_LEDGER", raising=False)
        assert call("run", "gaps.yaml", "--quiet", "--no-report").exit_code == 0, "to wait for people is no failure"
    return folder


@pytest.fixture
def waiting(ran: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of that campaign is in the working directory."""
    shutil.copytree(ran, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)


def test_a_task_is_listed_claimed_and_answered(waiting: None) -> None:
    first, second = data("lab", "list")
    assert (first["smiles"], first["state"], first["claimed_by"]) == ("Oc1ccccc1", "queued", None)
    assert first["method"] == "UV-vis onset, temperature 25 °C" and first["asks"][0]["property"] == "homo_lumo_gap"
    assert first["why"] and first["due_at"] and first["rung"] == "lab"
    number = str(first["task"])
    assert data("lab", "claim", number, "--who", "anna")["claimed_by"] == "anna"
    assert [task["task"] for task in data("lab", "list", "--mine", "--who", "anna")] == [first["task"]]
    assert "is with anna" in refused("lab", "enter", number, "--value", "homo_lumo_gap=4.3 eV", "--who", "ben")
    value = ("--value", "homo_lumo_gap=4.310 eV", "--uncertainty", "homo_lumo_gap=0.02", "--who", "anna")
    entered = data("lab", "enter", number, *value)
    assert (entered["state"], entered["revision"]) == ("answered", 0) and len(entered["evidence_key"]) == 64
    assert "sciagent resume gaps" in told("lab", "enter", str(second["task"]), "--not-obtained", "insoluble")
    assert call("resume", "gaps", "--quiet", "--no-report").exit_code == 0
    status = data("status", "gaps")
    assert (status["state"], status["hits"]) == ("finished", 1)
    assert status["rates"]["lab_slots"] == {"amount": 9, "per": "week", "used": 2, "until": "2027-06-30"}
    assert status["tasks"] == {"waiting": 0, "queued": 0, "claimed": 0, "in_review": 0, "answered": 2, "overdue": 0}
    assert "needs a reason; give it with --why" in refused("lab", "enter", number, *value)
    assert data("lab", "enter", number, *value, "--why", "read again")["revision"] == 1
    assert "nothing is to be measured now" in told("lab", "list")


def test_a_task_is_given_back(waiting: None) -> None:
    number = str(data("lab", "list")[0]["task"])
    told("lab", "claim", number, "--who", "anna")
    assert "queued" not in told("lab", "list", "--mine", "--who", "anna")
    found = data("lab", "claim", number, "--give-back", "the vial broke", "--who", "anna")
    assert (found["state"], found["cost_given_back"]) == ("queued", True)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("claim", "4711"), "there is no task 4711; see: sciagent lab list"),
        (("enter", "TASK"), "no value was given"),
        (("enter", "TASK", "--value", "homo_lumo_gap"), "write it as PROPERTY='VALUE UNIT'"),
        (("enter", "TASK", "--value", "dipole=1 D"), '"dipole" is not asked for'),
        (("enter", "TASK", "--value", "homo_lumo_gap=4 eV", "--below", "--above"), "exclude each other"),
        (("enter", "TASK", "--value", "homo_lumo_gap=12E4711 eV"), '"12E4711 eV" is too large'),
        (("enter", "TASK", "--value", "homo_lumo_gap=4,31 eV"), "write a decimal point: 4.31 eV"),
        (("enter", "TASK", "--value", "homo_lumo_gap=400 eV"), "outside what homo_lumo_gap can be"),
        (("sample", "TASK", "--form", "free base", "--purity", "98"), "for 98 %, give --purity 0.98"),
    ],
)
def test_what_does_not_fit_is_refused(waiting: None, words: tuple[str, ...], fault: str) -> None:
    number = str(data("lab", "list")[0]["task"])
    assert fault in refused("lab", *(number if word == "TASK" else word for word in words))
    assert [task["state"] for task in data("lab", "list")] == ["queued", "queued"], "nothing was recorded"


def test_the_status_says_what_people_have(waiting: None) -> None:
    data("lab", "enter", str(data("lab", "list")[0]["task"]), "--not-obtained", "insoluble")
    text = " ".join(told("status", "gaps").split())
    assert "1 of 9 lab slots in seven days · tasks: 1 on the list, 0 claimed, 1 answered" in text
    assert "what is to be measured: sciagent lab list --campaign gaps" in text


def test_the_list_and_the_status_name_the_campaign_whose_tasks_go_first(waiting: None) -> None:
    Path("again.yaml").write_text(CAMPAIGN.replace("campaign: gaps", "campaign: again"), encoding="utf-8")
    elsewhere = "2 of its measurements are on the list of campaign gaps"
    command = "sciagent lab list --campaign gaps"
    assert f"again waits for people; see: {command}" in " ".join(told("run", "again.yaml", "--no-report").split())
    text = " ".join(told("status", "again").split())
    assert f"tasks: 0 on the list, 0 claimed, 0 answered · {elsewhere}: {command}" in text
    assert f"what is to be measured: {command}; after an answer: sciagent resume again" in text
    listed = " ".join(told("lab", "list", "--campaign", "again").split())
    assert listed == f"{elsewhere}, and count here, too: {command}"
    assert data("lab", "list", "--campaign", "again") == [] and "on the list of" not in told("lab", "list")
    number = str(data("lab", "list", "--campaign", "gaps")[0]["task"])
    data("lab", "enter", number, "--value", "homo_lumo_gap=4.31 eV")
    assert "1 of its measurements is on the list of campaign gaps" in told("lab", "list", "--campaign", "again")


def test_a_limit_is_shown_as_one(waiting: None) -> None:
    data("lab", "enter", str(data("lab", "list")[0]["task"]), "--value", "homo_lumo_gap=<3.9 eV")
    assert "< 3.9" in told("best", "gaps")
    assert data("best", "gaps")[0]["values"]["homo_lumo_gap"]["censoring"] == "below"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which the commands are typed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)
    return tmp_path


def task_of_ethanol(folder: Path, campaign: str) -> str:
    """Runs a campaign of one molecule until it waits for people; returns the number of its task."""
    (folder / "molecules.csv").write_text("smiles\nCCO\n", encoding="utf-8")
    (folder / "gaps.yaml").write_text(campaign, encoding="utf-8")
    assert call("run", "gaps.yaml", "--quiet", "--no-report").exit_code == 0
    return str(data("lab", "list")[0]["task"])


def test_an_answer_is_read_before_it_is_accepted(folder: Path) -> None:
    number = task_of_ethanol(folder, CAMPAIGN.replace("lab: {ahead: 2", "lab: {review: true, ahead: 2"))
    assert "no answer of task" in refused("lab", "review", number)
    value = "homo_lumo_gap=4.310 eV"
    assert "sciagent lab review" in told("lab", "enter", number, "--value", value, "--who", "anna")
    shown = data("lab", "review", number, "--who", "ben")
    assert (shown["who"], shown["text"], shown["why"]) == ("anna", "homo_lumo_gap 4.310 eV", None)
    told("lab", "enter", number, "--value", "homo_lumo_gap=5.9 eV", "--who", "anna")
    accept = ("lab", "review", number, "--accept", str(shown["answer"]), "--who", "ben")
    assert "was changed since you read it" in refused(*accept)
    assert "exclude each other" in refused(*accept, "--send-back", "which lamp?")
    text = told("lab", "review", number)
    assert "homo_lumo_gap 5.9 eV" in text and f"sciagent lab review {number} --accept {shown['answer'] + 1}" in text
    accepted = data("lab", "review", number, "--accept", str(shown["answer"] + 1), "--who", "ben")
    assert accepted["state"] == "answered"


def test_a_measurement_beyond_the_slots_of_the_week_is_recorded_and_says_so(waiting: None) -> None:
    call("amend", "gaps", "--budget", "lab_slots=1/week", "--reason", "holidays")
    first, second = (str(task["task"]) for task in data("lab", "list"))
    assert "overdrawn" not in data("lab", "enter", first, "--not-obtained", "insoluble")
    text = told("lab", "enter", second, "--not-obtained", "insoluble")
    assert "the next claim waits: lab_slots: 2 of 1 in seven days" in " ".join(text.split())


def test_an_improbable_value_is_recorded_by_who_is_sure(folder: Path) -> None:
    text = CAMPAIGN.replace("[homo_lumo_gap]", "[homo_lumo_gap, melting_point, solubility]")
    number = task_of_ethanol(folder, text)
    value = ("lab", "enter", number, "--value", "melting_point=57 K", "--value", "solubility=4.6 mg/mL")
    assert "57 °C would lie inside. Nothing is recorded yet: is it right?; then add --sure" in refused(*value)
    recorded = " ".join(told(*value, "--sure").split())
    assert "solubility 4.6 mg/mL is 0.09985 mol/L, by the molar mass of 46.07 g/mol" in recorded
