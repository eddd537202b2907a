"""`sciagent bench scheduling`, as one calls it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sciagent.errors import UsageError
from sciagent_bench.command import THREADS, draw
from tests.support.typed import invoked

TINY = ("--family", "informative", "--size", "400", "--seeds", "2", "--budgets", "0.05,0.2")


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command sets is unset afterwards."""
    for name in THREADS:
        monkeypatch.setenv(name, "1")


def call(*arguments: str) -> tuple[str, str]:
    """Standard output and standard error."""
    found = invoked(["bench", "scheduling", *arguments], {"COLUMNS": "120", "TERM": "dumb"})
    if isinstance(found.exception, Exception):
        raise found.exception
    assert found.exit_code == 0, found.output
    return found.stdout, found.stderr


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(120)
    rows = [
        f"{'C' * (1 + i % 9)}O,{x + 0.5 * rng.standard_normal():.4f},{x:.4f},{'ab'[int(x > 0)]}"
        for i, x in enumerate(truth)
    ]
    path = tmp_path / "gaps.csv"
    path.write_text("smiles,cheap,gap,kind\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.mark.long
def test_a_family_gives_json_and_a_chart(tmp_path: Path) -> None:
    chart = tmp_path / "recall.svg"
    out, err = call(*TINY, "--json", "--plot", str(chart))
    found = json.loads(out)
    assert list(found) == ["schedulers"]
    outcome = found["schedulers"]["priced"]
    assert list(outcome["recall"]) == ["0.05", "0.2"]
    assert list(outcome["cost_to"]) == ["0.5", "0.8", "0.9", "0.95"]
    low, high = (outcome["recall"][at] for at in ("0.05", "0.2"))
    assert 0 <= low[0] <= high[0] <= 1 and high[0] > 0.5
    assert low[1] <= low[0] <= low[2]
    assert 0 < outcome["cost_to"]["0.5"][0] <= outcome["cost_to"]["0.8"][0] < 1
    assert "informative: each dearer rung tells more" in err
    drawn = chart.read_text(encoding="utf-8")
    assert drawn.count("<svg") == 1 and ">priced<" in drawn and "recall of the hits" in drawn


def test_a_table_gives_tables(table: Path) -> None:
    asked = ("--rungs", "cheap:1,gap:100", "--goal", "min", "--top", "0.1", "--seeds", "2", "--budgets", "0.3")
    out, err = call("--table", str(table), "--id", "smiles", *asked)
    assert "recall at a cost" in out and "cost of a recall, %" in out
    assert "30 %" in out and "95 %" in out and "priced" in out and "±" in out
    assert "gaps.csv: 120 candidates, 12 hits: gap below -1" in err
    assert "priced" in call("--table", str(table), "--features", "kind", "--stream", "40", *asked)[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give either --table FILE or --family NAME"),
        (("--family", "flat", "--table", "x.csv"), "give either --table"),
        (("--family", "flatt"), 'unknown family "flatt"; did you mean "flat"'),
        (("--family", "flat", "--goal", "min"), "go with --table, not with --family"),
        (("--family", "flat", "--top", "1"), "--top 1: a share between 0 and 1"),
        (("--family", "flat", "--schedulers", "best"), 'unknown scheduler "best"'),
        (("--family", "flat", "--budgets", "0.1,5%"), '--budgets: "5%" is no share'),
        (("--family", "flat", "--budgets", "0"), '--budgets: "0" is no share'),
        (("--family", "flat", "--plot", "a.doc"), "the name ends with .svg, .png or .pdf"),
        (("--family", "flat", "--plot", "nowhere/a.svg"), "the folder nowhere does not exist"),
        (("--table", "x.csv", "--goal", "min"), "--table needs --rungs"),
        (("--table", "x.csv", "--rungs", "a:1"), "--table needs --rungs COLUMN:COST,... and --goal"),
        (("--table", "x.csv", "--rungs", "a:1", "--goal", "min", "--size", "9"), "--size goes with --family"),
        (("--table", "x.csv", "--rungs", "a:1", "--goal", "min"), "x.csv:1:1: cannot be read: No such file"),
    ],
)
def test_a_call_that_cannot_be_is_refused_before_anything_runs(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match="(?s)" + message.replace(".", r"\.").replace("?", r"\?")):
        call(*arguments)


def test_a_chart_leaves_out_what_was_not_reached(tmp_path: Path) -> None:
    draw(
        {
            "one": {"recall": {"0.05": (0.5, 0.4, 0.6)}, "cost_to": {"0.5": (0.05, None, None), "0.9": None}},
            "two": {"recall": {"0.05": (0.7, None, None)}, "cost_to": {"0.5": None}},
        },
        tmp_path / "a.png",
    )
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
