"""The commands that the pages show exist, with these options; and none is missing."""

from __future__ import annotations

import re
from typing import Any

import pytest
from typer.main import get_command

from sciagent.cli.main import LATE, PLUGINS, app, loaded
from sciagent.cli.output_logging_and_given_structures import Exit
from tests.docs.pages import ROOT, commands, mentioned

CLI_PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


def leaves(command: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Every command that does something, by its path."""
    if len(path) == 1 and path[0] in (*PLUGINS, *LATE):
        command = loaded(path[0])
    if not hasattr(command, "commands"):
        return {path: command}
    return {k: v for name, sub in command.commands.items() for k, v in leaves(sub, (*path, name)).items()}


LEAVES = leaves(get_command(app))
ROOT_OPTIONS = {"--help", *(name for one in get_command(app).params for name in one.opts)}


def find(words: list[str]) -> tuple[str, ...]:
    """The command that the words begin with; a recipe stands for the command that runs it."""
    if words[0] == "train" and len(words) > 1 and words[1].endswith(".yaml"):
        return ("train", "recipe")
    for length in (2, 1):
        if tuple(words[:length]) in LEAVES:
            return tuple(words[:length])
    raise AssertionError(f"there is no command {' '.join(words[:2])}")


def path_length(path: tuple[str, ...], arguments: list[str]) -> int:
    """Number of words of the command; a recipe stands for one of them."""
    return len(path) if tuple(arguments[: len(path)]) == path else len(path) - 1


@pytest.mark.parametrize(("where", "arguments"), commands(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_command_on_a_page_is_understood(where: str, arguments: list[str]) -> None:
    if arguments[0].startswith("--"):
        assert arguments[0] in ROOT_OPTIONS
        return
    path = find(arguments)
    LEAVES[path].make_context(" ".join(path), arguments[path_length(path, arguments) :])  # parses, runs nothing


@pytest.mark.parametrize(("where", "words"), mentioned(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_command_in_the_text_exists(where: str, words: list[str]) -> None:
    if not words[0].startswith("-"):
        assert find(words) or words[0] in get_command(app).commands


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_the_page_of_the_command_line_shows_every_command(path: tuple[str, ...]) -> None:
    shown = [arguments for _, arguments in commands() if tuple(arguments[: len(path)]) == path]
    assert shown


def test_the_page_of_the_command_line_names_every_option() -> None:
    options = {
        name for leaf in LEAVES.values() for option in leaf.params for name in option.opts if name.startswith("--")
    }
    assert {name for name in options if name not in CLI_PAGE} == set()


def test_the_exit_codes_are_those_of_the_code() -> None:
    table = CLI_PAGE.split("## Exit codes", 1)[1].split("\n## ", 1)[0]
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == {code.value for code in Exit}
