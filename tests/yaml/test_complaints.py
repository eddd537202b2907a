"""Mistakes of YAML itself: each is named in plain words, at the line and column where the person made it."""

from __future__ import annotations

import pytest

from sciagent.yaml.positions import read

MISTAKES = {
    "a tab for an indent": ("campaign: a\nladder:\n\t- rung: x\n", (3, 1), "a tab indents this line"),
    "a tab behind blanks": ("campaign: a\ngoal:\n  kind: hits\n  \tcount: 5\n", (4, 3), "a tab indents this line"),
    "a tab for a blank": ("campaign: a\ngoal:\tx\n", (2, 6), "a tab stands here"),
    "too deep": ("campaign: a\n description: b\n", (2, 2), 'deeper than "campaign" in line 1, which has a value'),
    "between two": ("goal:\n    kind: hits\n  count: 5\n", (3, 3), "indented by 2 spaces, which fits no line above"),
    "an item": ("ladder:\n  - rung: a\n   verifier: b\n", (3, 4), "indented by 3 spaces"),
    "two colons": ("campaign: a\ndescription: b: c\n", (2, 15), "a second colon in one line"),
    "no colon": ("campaign: a\nsubject molecule\nseed: 1\n", (2, 1), "this line has no colon"),
    "no blank": ("campaign:a\nsubject: molecule\n", (1, 10), 'no space after the colon of "campaign"'),
    "an open bracket": ("window: [4.0, 4.6\nunit: eV\n", (1, 9), "the [ that opens here is not closed with ]"),
    "an open brace": ("campaign: a\ngoal: {kind: hits\n", (2, 7), "the { that opens here is not closed with }"),
    "an open quote": ('campaign: "a\nsubject: molecule\n', (1, 11), "the quotation mark that opens here"),
    "a sign": ("campaign: @a\n", (1, 11), "cannot begin with @"),
    "a star": ("description: *bold*\n", (1, 14), "cannot begin with *"),
    "an ampersand": ("description: & co\n", (1, 14), "cannot begin with &"),
    "a percent": ("campaign: a\nx: %y\n", (2, 4), "cannot begin with %"),
    "two documents": ("campaign: a\n---\ncampaign: b\n", (2, 1), "a second document begins here"),
    "an escape": ('description: "a\\qb"\n', (1, 17), "a backslash in double quotes"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_where_it_was_made(name: str) -> None:
    text, place, words = MISTAKES[name]
    [fault] = read(text).faults
    assert (fault.line, fault.column) == place
    assert words in fault.message


def test_a_line_that_fits_nothing_is_told_what_it_could_fit() -> None:
    [fault] = read("goal:\n    kind: hits\n  count: 5\n").faults
    assert fault.hint == 'indent it by 4 for a line beside "kind", or 0 for a line beside "goal"'


def test_whatever_stands_there_no_parser_words_get_through() -> None:
    for text, _, _ in MISTAKES.values():
        [fault] = read(text).faults
        assert not any(word in fault.message for word in ("token", "block end", "mapping values", "scanning"))


@pytest.mark.parametrize(("style", "reads"), [(">-", "one two three\n\nfour"), ("|-", "one\ntwo three\n\n\nfour")])
def test_a_folded_text_reads_as_yaml_folds_it(style: str, reads: str) -> None:
    document = read(f"description: {style}\n  one\n  two three\n\n\n  four\n")
    assert document.data["description"] == reads
