"""Links lead somewhere, dependencies are explained, and tables of the pages are those of the code."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from sciagent.domain.outcomes_verdicts_and_reasons import OUTCOME_RULES, Outcome, Reason
from sciagent.store.database.tables import metadata
from sciagent.verification.verifier_registry import provider, verifier_names
from tests.docs.pages import PAGES, ROOT

CONTRACTS = (ROOT / "docs" / "contracts.md").read_text(encoding="utf-8")
METHODS = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
RESULTS = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        name, _, fragment = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        if fragment:
            headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert fragment in {anchor(heading) for heading in headings}, link


FOLDERS = "sciagent|verifiers|simulators|bench|benchmarks|alembic|campaigns|docs|tests|docker|environments|supply"
PATH = re.compile(rf"(?<![\w./-])(?:\.\./)?((?:{FOLDERS})/[\w./-]*\w)")
EXAMPLES = ("docker/.env", "sciagent/engines.toml", "verifiers/acme_verifiers", "verifiers/pyproject.toml")
"""Beginnings of paths that a reader or a command makes."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_of_the_project_on_a_page_exists(page: Path) -> None:
    named = set(PATH.findall(page.read_text(encoding="utf-8")))
    assert [path for path in sorted(named) if not path.startswith(EXAMPLES) and not (ROOT / path).exists()] == []


def test_the_rooms_of_the_project_are_those_that_the_layers_name() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [floors] = [contract["layers"] for contract in contracts if contract["name"] == "The floors of sciagent"]
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page.split("| rooms of `sciagent/` |", 1)[1].split("\n\n", 1)[0]
    rows = [row.split(" | ")[0] for row in table.splitlines()[2:]]
    named = [[name.removesuffix(".py") for name in re.findall(r"`([\w.]+)`", row)] for row in rows]
    assert named == [[room.removeprefix("sciagent.") for room in floor.split(" | ")] for floor in floors]


def test_every_dependency_has_its_line() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {re.split(r"[\s\[<>=!;]", one)[0] for one in wanted} - {"sciagent"}
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"^\| (?:`[\w-]+` \| )?([\w.-]+) \| .+ \| .+ \|$", page, re.MULTILINE)) - {
        "package",
        "extra",
    }
    assert explained == names


def test_the_table_of_outcomes_is_that_of_the_code() -> None:
    found = {}
    for line in CONTRACTS.split("## 5. Outcomes", 1)[1].split("\n## ", 1)[0].splitlines():
        names, *cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        for name in re.findall(r"`(\w+)`", names) if line.startswith("| `") else ():
            found[Outcome(name)] = cells
    assert set(found) == set(Outcome)
    for outcome, (verdict, evidence, _) in found.items():
        rule = OUTCOME_RULES[outcome]
        assert verdict.startswith(str(rule.verdict or "pass or fail"))
        assert evidence.startswith("yes") == rule.is_evidence, outcome


def test_the_tables_of_the_ledger_are_all_named() -> None:
    section = CONTRACTS.split("## 3. The ledger", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(metadata.tables)


def test_the_reasons_that_the_chemist_reads_exist() -> None:
    table = RESULTS.split("## What the outcomes mean", 1)[1].split("\n## ", 1)[0]
    named = set(re.findall(r"`([a-z_]+)`", "".join(re.findall(r"^\| ([^|]+)\|", table, re.MULTILINE))))
    known = {*Reason, *Outcome, "pass", "fail", "not_applicable", "inconclusive", "error"}
    assert named and named <= {str(one) for one in known}


def test_every_shipped_verifier_has_its_line_for_the_chemist() -> None:
    ours = {name for name in verifier_names() if provider(name).split()[0] == "sciagent"}
    table = METHODS.split("## The rungs", 1)[1].split("\n## ", 1)[0]
    rows = set(re.findall(r"^\| `([a-z_]+\.[a-z_]+)` \| .+ \|$", table, re.MULTILINE))
    assert ours and rows == ours
