"""The commands of the page for the laboratory are typed, each in its turn, in one campaign: the one of the page."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks, campaigns, commands, mentioned
from tests.support.typed import data, told

PAGE = ROOT / "docs" / "lab.md"
ELSEWHERE = ("serve", "worker")  # tests/integration/test_serve.py starts them


class Page:
    """The commands of the page that have not been typed yet."""

    def __init__(self) -> None:
        in_text = [(where, shlex.split(" ".join(words))) for where, words in mentioned()]
        found = [words for where, words in (*commands(), *in_text) if "lab.md:" in where]
        self.left = [words for words in found if words[0] not in ELSEWHERE]

    def take(self, *beginning: str, swap: Mapping[str, str] | None = None) -> list[str]:
        """Words of the next command that begins so. swap: what stands for words of the page, such as a number."""
        taken = next(words for words in self.left if words[: len(beginning)] == list(beginning))
        self.left.remove(taken)
        return [(swap or {}).get(word, word) for word in taken]

    def type(self, *beginning: str, swap: Mapping[str, str] | None = None) -> str:
        return told(*self.take(*beginning, swap=swap))


def campaign_file() -> str:
    """The campaign of the page, with its rung for experts, and tasks that wait for a chemist."""
    [campaign] = campaigns(PAGE)
    [expert] = [block.text for block in blocks("yaml", PAGE) if "expert.review" in block.text]
    rung = "".join(f"  {line}\n" for line in expert.splitlines())
    text = campaign.text.replace("  - rung: lab\n", rung + "  - rung: lab\n")
    return text.replace("      due_days: 14\n", "      due_days: 14\n      approve: true\n")


def listed(rung: str) -> dict[str, str]:
    """{task: key of its molecule}"""
    return {str(task["task"]): task["key"] for task in data("lab", "list") if task["rung"] == rung}


@pytest.mark.long
def test_every_command_of_the_page_works_as_it_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)
    Path("soluble.yaml").write_text(campaign_file(), encoding="utf-8")
    Path("molecules.csv").write_text("smiles\nOc1ccccc1\nCc1ccccc1O\nNc1ccccc1\n", encoding="utf-8")
    Path("old.csv").write_text("smiles,logS\nCCO,-0.2\n", encoding="utf-8")
    page = Page()
    page.type("person", "add", "anna")
    page.type("person", "add", "carla")
    page.type("person", "add", "vera")
    page.type("run", "soluble.yaml", "--submit")
    page.type("import")
    told("resume", "soluble")
    judge(page)
    told("resume", "soluble")
    first, second, third = listed("lab")
    page.type("lab", "review", "TASK", swap={"TASK": first})
    for task in (second, third):
        told("lab", "review", task, "--approve")
    page.type("lab", "list")
    this = {"4711": first}
    page.type("lab", "claim", swap=this)
    page.type("lab", "claim", "4711", "--give-back", swap=this)
    code = re.search(r"\b[0-9A-Z]{10}\S", page.type("lab", "sample", swap=this))
    assert code is not None
    page.type("lab", "enter", "4711", "--sample", swap=this | {"7K2MA9QXC4T": code[0]})
    page.type("lab", "enter", "4711", "--value", swap=this)
    told("lab", "enter", second, "--not-obtained", "synthesis_failed")
    told("lab", "enter", third, "--value", "log_molar_solubility=45.1 mmol/L")
    told("resume", "soluble")
    told(*page.take("status")[:1], "soluble")
    page.type("person", "change")
    file = Path("soluble.yaml")
    file.write_text(file.read_text(encoding="utf-8").replace("due_days: 14", "due_days: 21"), encoding="utf-8")
    page.type("amend")
    page.type("audit")
    last = re.search(r"[0-9a-f]{64}", page.type("audit", "--head"))
    assert last is not None
    told(*page.take("audit", "--since", swap={"HASH": last[0]}))
    told(*page.take("explain"), "Oc1ccccc1")
    assert {" ".join(words) for words in page.left} <= {
        "run",
        "resume",
        "status",
        "doctor --pages https://lab.local:8080",
    }


def judge(page: Page) -> None:
    """Two people judge each molecule; the first of them as the page says."""
    tasks, judged = listed("can-we-make-it"), set[str]()
    assert len(tasks) == 8, "three molecules and an old one, two people each"
    for task, key in tasks.items():
        if not judged:
            page.type("lab", "enter", "4712", swap={"4712": task})
        else:
            who = ("--who", "ben") if key in judged else ()
            told("lab", "enter", task, "--grade", "expert_grade=probably", *who)
        judged.add(key)
