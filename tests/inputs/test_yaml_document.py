"""What cannot be read is reported at its line and column; files that a person did not write are refused at once."""

from __future__ import annotations

import time

import pytest

from sciagent.inputs.yaml_document import MAX_FAULTS, Fault, read, report

MISTAKES = {
    "a tab for an indent": ("campaign: a\nladder:\n\t- rung: x\n", (3, 1), "a tab indents this line"),
    "a tab behind blanks": ("campaign: a\ngoal:\n  kind: hits\n  \tcount: 5\n", (4, 3), "a tab indents this line"),
    "too deep": ("campaign: a\n description: b\n", (2, 13), "not YAML: mapping values are not allowed"),
    "between two": ("goal:\n    kind: hits\n  count: 5\n", (3, 3), "not YAML: expected <block end>"),
    "two colons": ("campaign: a\ndescription: b: c\n", (2, 15), "not YAML: mapping values are not allowed"),
    "an open bracket": ("window: [4.0, 4.6\nunit: eV\n", (1, 9), "the [ that opens here is not closed with ]"),
    "an open brace": ("campaign: a\ngoal: {kind: hits\n", (2, 7), "the { that opens here is not closed with }"),
    "an open quote": ('campaign: "a\nsubject: molecule\n', (1, 11), 'the " that opens here is not closed with "'),
    "a sign": ("campaign: @a\n", (1, 11), "not YAML: found character '@'"),
    "two documents": ("campaign: a\n---\ncampaign: b\n", (2, 1), "a second document begins here"),
    "an escape": ('description: "a\\qb"\n', (1, 17), "not YAML: found unknown escape character 'q'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported_where_the_parser_finds_it(name: str) -> None:
    text, place, message = MISTAKES[name]
    [fault] = read(text).faults
    assert (fault.line, fault.column) == place
    assert fault.message.startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("campaign: a\n" + "#\n" * 490_000, None),
        ("a:\n" + "".join(f"  k{n}: x\n" for n in range(80_000)), "about 160002 entries; it may have 20000"),
        ("a: [" + "1," * 400_000 + "]\n", "about 400002 entries"),
    ],
    ids=["comments", "keys", "list"],
)
def test_a_megabyte_takes_seconds_at_most(text: str, message: str | None) -> None:
    began = time.monotonic()
    document = read(text)
    assert time.monotonic() - began < 10
    assert [message in fault.message for fault in document.faults] == ([True] if message else [])


def test_of_many_mistakes_the_first_are_reported() -> None:
    *mistakes, last = report("x.yaml", read("k: 1\n" * 500).faults).splitlines()
    assert len(mistakes) == MAX_FAULTS and last.startswith(f"x.yaml: these are the first {MAX_FAULTS} mistakes")


def test_a_report_is_in_the_order_of_the_file_and_repeats_nothing() -> None:
    late, early = Fault(3, 1, "required, and missing", ("a", 0), ""), Fault(1, 5, "must be text", (), "write a text")
    assert report("x.yaml", [late, early, late]) == (
        "x.yaml:1:5: must be text\n  write a text\nx.yaml:3:1: a[0]: required, and missing"
    )


@pytest.mark.parametrize(("style", "reads"), [(">-", "one two three\n\nfour"), ("|-", "one\ntwo three\n\n\nfour")])
def test_a_folded_text_reads_as_yaml_folds_it(style: str, reads: str) -> None:
    document = read(f"description: {style}\n  one\n  two three\n\n\n  four\n")
    assert document.data["description"] == reads
