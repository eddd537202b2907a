"""Names that reach beyond a file are found by the marks of fields, whatever the shape of the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from sciagent.inputs.names_outside_the_file import ModelOf, Outside, OutsideName, names_in


class File(BaseModel):
    path: Annotated[str, Outside.FILE]
    name: str = ""


class Server(BaseModel):
    kind: Literal["server"]
    address: Annotated[str, Outside.ADDRESS] | None = Field(None, alias="url")
    start: Annotated[tuple[str, ...], Outside.COMMAND] | None = None


class Reader(BaseModel):
    kind: Literal["reader"] = "reader"
    files: dict[str, File | tuple[File, ...]] = {}
    weights: Annotated[File, Outside.CODE] | None = None


class Whole(BaseModel):
    title: str = ""
    parts: tuple[Server | Reader, ...] = ()
    texts: Annotated[str | tuple[str, ...], Outside.FILE] = ()
    settings: Annotated[dict[str, Any], ModelOf(lambda around: models.get(str(around.get("title"))))] = {}


models: Mapping[str, type[BaseModel]] = {"a file": File}


def found(data: Any) -> list[tuple[str, Outside, str | tuple[str, ...]]]:
    return [(".".join(map(str, name.loc)), name.kind, name.value) for name in names_in(data, Whole)]


def test_a_name_is_found_below_unions_lists_and_mappings() -> None:
    files = {"a": "x.csv", "b": {"path": "y.csv", "name": "n"}, "c": ["z.csv"]}
    data = {"parts": [{"kind": "server", "url": "http://h"}, {"kind": "reader", "files": files}]}
    assert found(data) == [
        ("parts.0.url", Outside.ADDRESS, "http://h"),
        ("parts.1.files.a", Outside.FILE, "x.csv"),
        ("parts.1.files.b.path", Outside.FILE, "y.csv"),
        ("parts.1.files.c.0", Outside.FILE, "z.csv"),
    ]


def test_a_model_without_its_kind_is_searched_too() -> None:
    assert found({"parts": [{"files": {"a": "x"}}]}) == [("parts.0.files.a", Outside.FILE, "x")]
    assert found({"parts": [{"kind": "server", "files": {"a": "x"}}]}) == []  # no server has this key


def test_a_command_is_one_name_and_an_invalid_one_is_found_as_well() -> None:
    for given, value in ((["sh", "-c", 1], ("sh", "-c", "1")), ("sh", "sh")):
        data = {"parts": [{"kind": "server", "start": given}]}
        assert found(data) == [("parts.0.start", Outside.COMMAND, value)]


def test_the_outer_mark_of_a_file_counts() -> None:
    for given, place in (("w", "weights"), ({"path": "w"}, "weights.path")):
        assert found({"parts": [{"kind": "reader", "weights": given}]}) == [(f"parts.0.{place}", Outside.CODE, "w")]


def test_a_text_is_a_name_where_a_list_is_not() -> None:
    assert found({"texts": "names.csv"}) == [("texts", Outside.FILE, "names.csv")]
    assert found({"texts": ["C", "CC"]}) == [] == found({"texts": None}) == found(None)


def test_settings_have_the_model_that_their_neighbours_choose() -> None:
    assert names_in({"title": "a file", "settings": {"path": "p"}}, Whole) == [
        OutsideName(("settings", "path"), Outside.FILE, "p")
    ]
    assert found({"title": "another", "settings": {"path": "p"}}) == []
