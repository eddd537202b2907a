"""HTML of what notebooks show."""

from __future__ import annotations

from sciagent.api import notebook_html


def test_a_table_is_escaped_drawn_and_aligned() -> None:
    made = notebook_html.table(
        [{"smiles": "CCO", "n": 3, "said": "<script>"}, {"smiles": "not one", "n": None, "said": None}]
    )
    assert made.count("<svg") == 1 and "&lt;script&gt;" in made and "<script>" not in made
    assert '<td class="n">3</td>' in made
