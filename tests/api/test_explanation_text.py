"""An explanation as paragraphs."""

from __future__ import annotations

from sciagent import Campaign
from sciagent.api.explanation_text import paragraphs


def test_an_explanation_begins_with_the_structure_and_goes_down_to_the_values(done: Campaign) -> None:
    lines = list(paragraphs(done.explain("CCO").answer))
    assert lines[0] == ("CCO", 0, "")
    heading = next(line for line in lines if line.text.startswith("toy (toy_energy"))
    assert (heading.depth, heading.style) == (1, "bold") and heading.text.endswith("decides): fail (below_window)")
    assert "toy_energy = 3.0 ± 0.2 kJ/mol  [toy_energy]" in [line.text for line in lines if line.depth == 2]


def test_keys_and_settings_are_told_in_full_only_when_asked_for(done: Campaign) -> None:
    answer = done.explain("CCO").answer
    short, full = (" ".join(line.text for line in paragraphs(answer, full)) for full in (False, True))
    assert ", scale=1.0" in full and "scale=" not in short
    assert f"key {answer.key}," in full and f"key {answer.key}," not in short


def test_evidence_from_elsewhere_without_a_value_says_why(done: Campaign) -> None:
    answer = done.explain("CCO").answer
    evidence = answer.campaigns[0].rungs[-1].evidence
    assert evidence is not None
    detail = "not a minimum: 1 imaginary mode: 62i cm^-1"
    other = evidence.model_copy(update={"outcome": "unstable", "detail": detail, "values": ()})
    lines = list(paragraphs(answer.model_copy(update={"other_evidence": (other,)})))
    assert lines[-1] == (detail, 2, "") and lines[-2].text.endswith(": unstable")
