"""The page for who runs it names every variable that is read, and no other; its figures are those of the benchmarks."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
SETTINGS = PAGE.split("## Settings", 1)[1].split("\n## ", 1)[0]


def read_by_the_code() -> set[str]:
    modules = [*(ROOT / "sciagent").rglob("*.py"), *(ROOT / "simulators").rglob("*.py")]
    code = "".join(path.read_text(encoding="utf-8") for path in modules)
    names = set(re.findall(r'"(SCIAGENT_\w+)"', code))
    return names | {f"{name}_FILE" for name in re.findall(r'\bsecret\("(SCIAGENT_\w+)"\)', code)}


def test_every_variable_is_explained() -> None:
    assert set(re.findall(r"SCIAGENT_[A-Z_]+", SETTINGS)) == read_by_the_code()


@pytest.mark.parametrize(
    ("page", "figures"),
    [
        ("local_execution", ["| 10.5 |", "| 0.95 |", "1.19×", "97.6 %", "1.6 GB"]),
        ("scheduling_scale", ["| 143 | 188 |"]),
        ("fast_tier", ["The loop does 245 molecules"]),
    ],
)
def test_the_figures_are_still_those_of_the_benchmarks(page: str, figures: list[str]) -> None:
    text = (ROOT / "benchmarks" / page / "README.md").read_text(encoding="utf-8")
    assert [one for one in figures if one not in text] == []


def test_the_alarms_name_metrics_that_there_are() -> None:
    served = (ROOT / "sciagent" / "report" / "prometheus_metrics.py").read_text(encoding="utf-8")
    alarms = PAGE.split("## What to watch", 1)[1].split("\n## ", 1)[0]
    named = set(re.findall(r"sciagent_[a-z_]+", alarms))
    assert (
        named and {one for one in named if one.removesuffix("_total").removeprefix("sciagent_") not in served} == set()
    )
