"""Every list of candidates has the one order of `sciagent.domain.worth`, and nothing else computes a chance."""

from __future__ import annotations

import ast
import io
import json
import random
from pathlib import Path

import openpyxl
import pytest

from sciagent.domain.states_and_needs import Standing
from sciagent.domain.worth import HIT, Basis, Worth, chance_of
from sciagent.report.export.spreadsheets import TableSelection, write_excel
from sciagent.report.parts.best_candidate_cards_and_table import cards
from sciagent.report.parts.best_candidate_cards_and_table import table as page_table
from sciagent.report.parts.export_rows import write_jsonl
from sciagent.report.status_best_trace import best
from sciagent.store.campaign_state import campaigns, candidate_standings
from sciagent.store.database.ledger import Ledger
from sciagent.store.views.report_candidates import hits_best_first
from tests.support.reported import Maker

PRODUCT = Path(__file__).parents[2] / "sciagent"
N_CANDIDATES = 40
MAY_COMPUTE_CHANCES = {
    "sciagent/domain/worth.py",  # the definition; the rules and laws of `sciagent/scheduling` hold its twin
    "sciagent/campaign/planning/optimal_purchases.py",  # of hits in a plan, before there are candidates
}


def drawn(rng: random.Random) -> Worth:
    """Few values, so that ties occur at every level of the order."""
    p_hit = rng.choice((None, 0.0, 0.004, 0.3, 0.304, 0.31, 1.0))
    chance = HIT if p_hit == 1 else chance_of(p_hit)
    margin = rng.choice((None, -1.5, 0.0, 0.25))
    return Worth(p_hit, chance, rng.choice((0.001, 0.5, 0.500001, 1.0)), margin, rng.choice(list(Basis)))


@pytest.mark.parametrize("seed", range(3))
def test_all_lists_have_one_order(own_ledger: Ledger, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    made = Maker(own_ledger, tmp_path)
    texts = tuple("C" * n for n in range(1, N_CANDIDATES + 1))
    made.enter(texts)
    worths = [drawn(rng) for _ in texts]
    with made.ledger.begin() as connection:
        for id_, worth in zip(made.ids, worths, strict=True):
            is_hit = worth.chance == HIT
            fate = {"standing": Standing.SETTLED if is_hit else Standing.OPEN, "is_hit": is_hit, "position": 2}
            candidate_standings.update(connection, made.row.id, id_, **fate, **worth.columns)
    places = sorted(range(N_CANDIDATES), key=lambda i: worths[i].order, reverse=True)  # stable: ties by arrival
    expected = [texts[i] for i in places]
    hits = [texts[i] for i in places if worths[i].chance == HIT]
    lines = io.StringIO()
    with made.ledger.read() as connection:
        ladder = campaigns.rungs(connection, made.row.id)
        assert [shown.text for shown in best(connection, made.row, N_CANDIDATES)] == expected
        shown_cards = cards(connection, made.row, ladder, made.ledger.artifacts, N_CANDIDATES)
        assert [card.candidate.text for card in shown_cards] == expected[: len(shown_cards)] and shown_cards
        assert [row[1] for row in page_table(connection, made.row, ladder).rows] == expected
        parents = candidate_standings.best_with_worth(connection, made.row.id, N_CANDIDATES)
        assert [row["text"] for row in parents] == expected
        assert [shown.text for shown in hits_best_first(connection, made.row, 0, N_CANDIDATES)] == hits
        write_jsonl(connection, made.row, lines, hits=True)
        write_excel(connection, made.row, tmp_path / "a.xlsx", TableSelection("smiles"))
    assert [json.loads(line)["text"] for line in lines.getvalue().splitlines()] == hits
    sheet = openpyxl.load_workbook(tmp_path / "a.xlsx")["candidates"]
    assert [row[-1].value for row in sheet.iter_rows(min_row=2)] == expected


def test_nothing_else_computes_a_chance_or_an_order() -> None:
    """By names: the distribution functions of normals, and columns of a worth in the order of a query."""
    found = []
    for path in sorted(PRODUCT.rglob("*.py")):
        name = path.relative_to(PRODUCT.parent).as_posix()
        if name.startswith("sciagent/scheduling/") or name in MAY_COMPUTE_CHANCES:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in ("cdf", "logcdf", "sf"):
                found.append(f"{name}:{node.lineno} {node.attr}")
            if isinstance(node, ast.Name) and node.id in ("ndtr", "log_ndtr"):
                found.append(f"{name}:{node.lineno} {node.id}")
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "order_by":
                parts = [part for argument in node.args for part in ast.walk(argument)]
                columns = {part.attr for part in parts if isinstance(part, ast.Attribute)}
                if columns & {"utility", "p_hit", "chance", "expected_utility", "margin"}:
                    found.append(f"{name}:{node.lineno} order_by")
    assert not found
