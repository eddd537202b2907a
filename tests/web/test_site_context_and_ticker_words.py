"""Pages write the names of properties with spaces."""

from __future__ import annotations

import pytest

from sciagent.web.site_context_and_ticker import in_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("homo_lumo_gap: no number", "homo lumo gap: no number"),
        ("-1 ≤ log_molar_solubility, pka = 4", "-1 ≤ log molar solubility, pka = 4"),
        ("rung my_homo_lumo_gap and melting_points", "rung my_homo_lumo_gap and melting_points"),
    ],
)
def test_names_of_properties_get_spaces_and_other_names_stay(text: str, words: str) -> None:
    assert in_words(text) == words
