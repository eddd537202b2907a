"""What all pages share."""

from __future__ import annotations

import pytest

from sciagent.domain.answers.candidate_and_value_answers import StructureText
from sciagent.web.site_context_and_ticker import drawing, own_path, path_of, redirect_to


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/tasks/4?vial=A%20B", "/tasks/4?vial=A%20B"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("/tasks\r\nset-cookie: a=b", "/"),
        ("/" + "x" * 500, "/"),
        ("", "/"),
    ],
)
def test_only_a_path_of_this_server_is_gone_to(text: str, path: str) -> None:
    assert own_path(text) == path


@pytest.mark.parametrize(
    ("address", "path"), [("http://host/tasks/4", "/tasks/4"), ("http://[", "/"), ("http://host", "/"), ("", "/")]
)
def test_the_way_back_is_the_path_of_an_address(address: str, path: str) -> None:
    assert path_of(address) == path


def test_a_query_is_quoted() -> None:
    assert redirect_to("/tasks/4", vial="80P0Z&=*", saved=None).headers["location"] == "/tasks/4?vial=80P0Z%26%3D%2A"


def test_a_molecule_that_cannot_be_read_has_no_drawing() -> None:
    shown, odd = (StructureText(kind="molecule", text=text) for text in ("CCO", "</svg><script>"))
    assert drawing(shown).startswith("<svg") and drawing(odd) == ""
