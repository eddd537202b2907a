"""What elements leave in the spool, and what is read from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.execution.slurm.spool import Mark, Spool
from sciagent.execution.slurm.states import ElementState, element_status
from tests.execution.slurm.marks import leave, spool

__all__ = ["spool"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"code": 0}',
        '{"code": -1, "warned": false, "stopped": false}\n',
        "[" * 5000,
        "\0" * 10000,
        '{"code": 0, "warned": false, "stopped": false}\n' * 2,
        '{"code": 0, "warned": false, "stopped": fal',
    ],
    ids=range(8),
)
def test_a_mark_that_is_not_whole_is_none(spool: Spool, text: str) -> None:
    (spool.folder / "exit.0").write_text(text)
    assert spool.mark(0) is None
    assert element_status(0, None, spool).state is ElementState.LOST


@pytest.mark.parametrize("token", ["../../etc", "0123456789ABCDEF", "0123456789abcde", "0123456789abcdef\n"])
def test_a_token_that_is_none_of_ours_is_no_folder(tmp_path: Path, token: str) -> None:
    with pytest.raises(ValueError):
        Spool(str(tmp_path), token)


def test_a_mark_says_how_the_command_ended(spool: Spool) -> None:
    leave(spool, 7, stopped=True)
    assert spool.mark(0) == Mark(7, True)
