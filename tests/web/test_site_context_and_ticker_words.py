"""Pages write the names of properties with spaces."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from sciagent.web import site_context_and_ticker
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


def test_times_are_elements_that_a_script_can_show_in_local_time() -> None:
    at = datetime(2026, 11, 29, 23, 5, 7, 250_000, tzinfo=UTC)
    element = '<time datetime="2026-11-29T23:05:00.000Z" data-shows="minute">2026-11-29 23:05 UTC</time>'
    assert site_context_and_ticker._moment(at.replace(second=0, microsecond=0)) == element
    east = at.astimezone(timezone(timedelta(hours=9)))
    assert site_context_and_ticker._clock(east) == site_context_and_ticker._clock(at)
    assert 'datetime="2026-11-29T23:05:07.250Z" data-shows="second">23:05:07 UTC<' in site_context_and_ticker._clock(at)
    assert site_context_and_ticker._day(None) == "" and ">2026-11-29<" in site_context_and_ticker._day(at)
    text = "<b> entered 2026-11-29 23:05 UTC, not 2026-99-99 23:05 UTC"
    expected = f"&lt;b&gt; entered {element}, not 2026-99-99 23:05 UTC"
    assert site_context_and_ticker._with_moments(text) == expected
