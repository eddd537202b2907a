"""An explanation as paragraphs."""

from __future__ import annotations

from sciagent import Campaign
from sciagent.report.explanation_text import BRIEF, VERBOSE, paragraphs


def test_an_explanation_begins_with_the_structure_and_goes_down_to_the_values(done: Campaign) -> None:
    lines = list(paragraphs(done.explain("CCO").answer))
    assert lines[0] == ("CCO", 0, "")
    heading = next(line for line in lines if line.text.startswith("toy (toy_energy"))
    assert (heading.depth, heading.style) == (1, "bold") and heading.text.endswith("decides): fail (below_window)")
    assert "toy_energy = 3.0 ± 0.2 kJ/mol  [toy_energy]" in [line.text for line in lines if line.depth == 2]


def test_keys_and_settings_are_told_only_when_asked_for(done: Campaign) -> None:
    answer = done.explain("CCO").answer
    brief = " ".join(line.text for line in paragraphs(answer, BRIEF))
    verbose = " ".join(line.text for line in paragraphs(answer, VERBOSE))
    assert ", scale=1.0" in verbose and "scale=" not in brief
    assert f"key {answer.key}," in verbose and f"key {answer.key}," not in brief


def test_evidence_from_elsewhere_without_a_value_says_why(done: Campaign) -> None:
    answer = done.explain("CCO").answer
    evidence = answer.campaigns[0].rungs[-1].evidence
    assert evidence is not None
    detail = "not a minimum: 1 imaginary mode: 62i cm^-1"
    changes = {"outcome": "unstable", "detail": detail, "values": (), "diagnostics": {"n_imaginary": 1}}
    other = evidence.model_copy(update=changes)
    lines = list(paragraphs(answer.model_copy(update={"other_evidence": (other,)}), VERBOSE))
    assert lines[-3].text.endswith(": unstable")
    assert lines[-2:] == [(detail, 2, ""), ("diagnostics: n_imaginary: 1", 2, "")]


def test_a_remark_and_diagnostics_stand_below_the_values_of_their_rung(done: Campaign) -> None:
    answer = done.explain("CCO").answer
    story = answer.campaigns[0]
    rung = story.rungs[-1]
    assert rung.evidence is not None
    evidence = rung.evidence.model_copy(update={"diagnostics": {"is_metal": False}, "detail": "too soft"})
    rungs = (*story.rungs[:-1], rung.model_copy(update={"evidence": evidence}))
    campaigns = (story.model_copy(update={"rungs": rungs}),)
    explained = answer.model_copy(update={"campaigns": campaigns})
    assert "too soft" in [line.text for line in paragraphs(explained, BRIEF)]
    lines = [line.text for line in paragraphs(explained, VERBOSE)]
    place = lines.index("diagnostics: is_metal: no")
    assert lines[place - 2].startswith("toy_energy = ") and lines[place - 1] == "too soft"


def test_the_words_are_those_of_the_subject(done: Campaign) -> None:
    answer = done.explain("CCO").answer.model_copy(update={"kind": "crystal"})
    evidence = answer.campaigns[0].rungs[-1].evidence
    values = tuple(value.model_copy(update={"uncertainty_kind": "class"}) for value in evidence.values)
    other = evidence.model_copy(update={"values": values})
    lines = list(paragraphs(answer.model_copy(update={"other_evidence": (other,)})))
    assert "(± over starting structures, usual for such crystals)" in " ".join(line.text for line in lines)


def test_values_that_belong_to_no_campaign_are_all_shown(done: Campaign) -> None:
    """The energies of a crystal by `sciagent calc` come after volume and density, and are what was asked for."""
    answer = done.explain("CCO").answer
    evidence = answer.campaigns[0].rungs[-1].evidence
    assert evidence is not None
    values = tuple(evidence.values[0].model_copy(update={"property": f"value_{k}"}) for k in range(5))
    alone = evidence.model_copy(update={"values": values, "campaign": None})
    for other, n in ((alone, 5), (alone.model_copy(update={"campaign": "another"}), 2)):
        lines = [line.text for line in paragraphs(answer.model_copy(update={"other_evidence": (other,)}), BRIEF)]
        assert sum(line.startswith("value_") for line in lines) == n


def test_the_brief_text_has_the_judged_values_alone(done: Campaign) -> None:
    answer = done.explain("CCO").answer
    story = answer.campaigns[0]
    rung = story.rungs[-1]
    assert rung.evidence is not None
    [judged] = rung.evidence.values
    others = tuple(judged.model_copy(update={"property": f"other_{k}"}) for k in range(3))
    evidence = rung.evidence.model_copy(update={"values": (*others, judged), "diagnostics": {"is_metal": False}})
    rungs = (*story.rungs[:-1], rung.model_copy(update={"evidence": evidence}))
    answer = answer.model_copy(update={"campaigns": (story.model_copy(update={"rungs": rungs}),)})
    brief = [line.text for line in paragraphs(answer)]
    verbose = [line.text for line in paragraphs(answer, VERBOSE)]
    assert "and 3 more values" in brief and not [text for text in brief if text.startswith(("other_", "diagnostics"))]
    assert len([text for text in verbose if text.startswith("other_")]) == 3
