"""What notebooks and terminals are shown of an answer."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from sciagent import Campaign
from sciagent.api.displayed_answers import budget_line

VOID = {"br", "meta", "link"}


class Balanced(HTMLParser):
    """Fails where an element is not closed by its own end."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize(
    ("what", "shown", "drawings"),
    [
        ("status", ["toys: finished", "nothing is left to do"], 0),
        ("best", ["toy_energy [kJ/mol]", "6.0 ± 0.2", "hit", "below window"], 5),
        ("candidates", ["CCO", "toy_energy [kJ/mol]", "6.0 ± 0.2"], 5),
        ("explain", ["In campaign toys: settled", "below_window"], 1),
        ("verify", ["fail", "3.0 ± 0.2 kJ/mol", "known"], 1),
        ("evidence", ["toy_energy", "toys"], 4),
    ],
)
def test_an_answer_shows_itself(done: Campaign, what: str, shown: list[str], drawings: int) -> None:
    arguments = {"explain": ["CCO"], "verify": ["CCO"], "evidence": ["toy_energy"]}.get(what, [])
    text = getattr(done, what)(*arguments)._repr_html_()
    checked = Balanced()
    checked.feed(text)
    assert checked.open == []
    for words in shown:
        assert words in text
    assert text.count("<svg") == drawings


def test_a_terminal_is_shown_the_table_of_the_command(done: Campaign) -> None:
    shown = repr(done.status())
    assert shown.startswith("toys: finished") and "molecule_safety" in shown
    assert repr(done) == "Campaign('toys'): finished, 5 candidates, 2 hits"


def test_a_result_reads_like_the_command(done: Campaign) -> None:
    result = done.verify("CCO")
    assert repr(result).startswith("CCO: fail (below_window)")
    assert "    toy_energy = 3.0 ± 0.2 kJ/mol  [toy_energy]" in repr(result).splitlines()


def test_a_text_that_could_not_be_read_is_explained(toys: Campaign) -> None:
    toys.add("C(C<b>")
    told = toys.explain("C(C<b>")
    assert told.key is None and "refused" in repr(told) and "<b>" not in told._repr_html_().replace("<b></b>", "")


def test_hits_are_not_counted_where_no_objective_has_limits(done: Campaign) -> None:
    status = done.status()
    assert "2 hits" in budget_line(status)
    assert "hit" not in budget_line(status.model_copy(update={"hits_defined": False}))
