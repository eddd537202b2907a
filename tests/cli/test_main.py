"""Every command says what it does, how it is called, and what each option means."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest
from typer.main import get_command

from sciagent.cli.main import FIRST, PANELS, PLUGINS, app, plugin
from sciagent.errors import UsageError
from tests.docs.test_commands import LEAVES
from tests.support.typed import invoked

ALL = pytest.mark.parametrize("path", LEAVES, ids=" ".join)


def has_arguments(command: Any) -> bool:
    return any(one.param_type_name == "argument" for one in command.params)


def shown(*arguments: str) -> str:
    """Help as it is printed, in one line."""
    result = invoked([*arguments, "--help"], {"COLUMNS": "400", "NO_COLOR": "1", "TERM": "dumb"})
    assert result.exit_code == 0
    return " ".join(result.output.split())


@ALL
def test_a_command_says_what_it_does(path: tuple[str, ...]) -> None:
    text = shown(*path)
    first = (LEAVES[path].help or "").strip().splitlines()[0]
    assert first and first[0].isupper()
    assert first[:40] in text


@ALL
def test_a_command_with_arguments_has_an_example_that_is_understood(path: tuple[str, ...]) -> None:
    epilog = LEAVES[path].epilog
    if not has_arguments(LEAVES[path]) and epilog is None:
        return
    assert epilog and epilog.startswith("Example: sciagent "), "an example helps here"
    words = shlex.split(epilog.removeprefix("Example: ").replace("\\[", "[").split(" > ")[0])
    assert tuple(words[1 : 1 + len(path)]) == path
    LEAVES[path].make_context(" ".join(path), words[1 + len(path) :])


@pytest.mark.parametrize("path", [path for path in LEAVES if LEAVES[path].epilog], ids=" ".join)
def test_the_example_is_printed_as_it_was_written(path: tuple[str, ...]) -> None:
    assert LEAVES[path].epilog.replace("\\[", "[") in shown(*path)


@ALL
def test_arguments_and_what_may_be_repeated_are_explained_and_options_are_spelt_alike(path: tuple[str, ...]) -> None:
    for one in LEAVES[path].params:
        if one.param_type_name == "argument" or getattr(one, "multiple", False):
            assert one.help, f"{' '.join(path)} {one.name}"
        assert all(re.fullmatch(r"--[a-z]+(-[a-z]+)*|-[a-z]", name) for name in one.opts if name.startswith("-"))


def test_the_list_of_commands_has_the_plug_ins_with_their_own_words_and_imports_none_of_them() -> None:
    for name, words in PLUGINS.items():
        assert plugin(name).help == words
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "sciagent", "--all"], capture_output=True, text=True, timeout=60
    )
    assert all(f"sciagent_{name}" not in done.stderr and words in done.stdout for name, words in PLUGINS.items())


def test_a_plug_in_that_is_not_installed_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: ())
    result = invoked(["bench", "scheduling"])
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == (
        'the command "bench" needs the package sciagent_bench, which is not installed or does not load; '
        "it comes with sciagent: pip install --force-reinstall sciagent"
    )


def help_in_80_columns(*arguments: str) -> str:
    return invoked(list(arguments), {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}).output


@pytest.mark.parametrize("typed", [[], ["--help"]], ids=["nothing", "--help"])
def test_the_first_screen_has_twelve_commands_for_a_beginner(typed: list[str]) -> None:
    screen = help_in_80_columns(*typed)
    assert set(re.findall(r"^│ ([a-z]\S*)", screen, re.MULTILINE)) == set(FIRST)
    assert len(FIRST) == 12 and "All commands: sciagent --all" in screen
    assert len(screen.splitlines()) < 45


@pytest.mark.parametrize("typed", [["--all"], ["--help", "--all"], ["--all", "--help"]], ids=" ".join)
def test_all_commands_are_shown_by_panels_each_on_one_line(typed: list[str]) -> None:
    screen = help_in_80_columns(*typed)
    assert set(re.findall(r"─ (\w+) ─", screen)) >= set(PANELS)
    rows = [line for line in screen.splitlines() if re.match(r"│ [a-z]", line)]
    assert len(rows) == len(get_command(app).commands)


def test_there_are_at_most_72_commands_besides_those_of_plug_ins() -> None:
    assert len([path for path in LEAVES if path[0] not in PLUGINS]) <= 72


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("adapters --unload", "name the adapter"),
        ("adapters policy-1", "say what to do with policy-1"),
        ("audit --head --export", "exclude each other"),
        ("audit -o trail.jsonl", "--output belongs to --export"),
        ("engines --remove", "name the environment"),
        ("engines mace", "say what to do with mace"),
        ("import old.csv --value a=dipole[D]", "say how the values were obtained"),
        ("import old.csv --value a=dipole[D] --rung lab", "--campaign and --rung belong together"),
        ("import old.csv --value a=dipole[D] -c small --rung lab --ph 7", "--ph does not go with --rung"),
        ("lab claim 1 --take-over --give-back lost", "exclude each other"),
        ("lab review 1 --accept 2 --approve", "exclude each other"),
        ("models --remove", "say which model"),
        ("models small --texts rows --name other", "named by its argument"),
        ("models small --texts rows --remove", "--remove takes the name of a model only"),
        ("person change anna", "say what to change"),
        ("person change anna --reset --campaign small", "--campaign belongs to --role"),
        ("policy --as production", "name the policy"),
        ("policy tiny --rollback --as production", "--rollback takes the name of a role only"),
        ("policy tiny --reason better", "belong to --as ROLE"),
        ("rewards show 2 --since 1 --guards", "exclude each other"),
        ("run small.yaml --submit --workers 2", "--workers does not go with --submit"),
        ("run small.yaml --wait", "belong to --submit"),
        ("top --listen 127.0.0.1:0 --once", "--listen serves until it is interrupted"),
        ("workers --undo", "--undo belongs to --drain WORKER"),
    ],
)
def test_options_that_do_not_go_together_are_refused(typed: str, why: str) -> None:
    refused = invoked(typed.split()).exception
    assert isinstance(refused, UsageError) and why in str(refused)


def test_the_root_says_where_to_start() -> None:
    assert "Start: sciagent run campaigns/quickstart.yaml" in shown()
    assert get_command(app).no_args_is_help


def test_a_mistyped_command_is_answered_with_the_near_one_and_exit_code_2() -> None:
    result = invoked(["staus"])
    assert result.exit_code == 2
    assert "status" in result.output
