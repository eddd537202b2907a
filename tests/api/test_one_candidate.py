"""What is known of one candidate."""

from __future__ import annotations

from sciagent import Campaign


def test_a_result_reads_like_the_command(done: Campaign) -> None:
    result = done.verify("CCO")
    assert repr(result).startswith("CCO: fail (below_window)")
    assert "    toy_energy = 3.0 ± 0.2 kJ/mol  [toy_energy]" in repr(result).splitlines()


def test_a_text_that_could_not_be_read_is_explained(toys: Campaign) -> None:
    toys.add("C(C<b>")
    told = toys.explain("C(C<b>")
    assert told.key is None and "refused" in repr(told) and "<b>" not in told._repr_html_().replace("<b></b>", "")
