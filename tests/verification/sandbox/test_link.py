"""The driver notices how a zygote ends, and gives up a silent one."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sciagent.verification.sandbox.link import ZygoteDiedError, ZygoteLink


@pytest.fixture
def link(misbehaving: Path, tmp_path: Path) -> Iterator[ZygoteLink]:
    link = ZygoteLink(tmp_path / "worker", ["bad.noop"])
    yield link
    link.close()
    assert not psutil.pid_exists(link.pid)


def test_a_killed_zygote_is_reported_with_its_status(link: ZygoteLink) -> None:
    os.kill(link.pid, signal.SIGKILL)
    with pytest.raises(ZygoteDiedError, match="status -9"):
        link.receive(time.monotonic() + 20, threading.Event(), 1.0)
    assert not link.alive


def test_a_silent_zygote_is_given_up_at_the_deadline_and_sooner_in_a_hurry(link: ZygoteLink) -> None:
    hurry = threading.Event()
    with pytest.raises(ZygoteDiedError, match="it fell silent"):
        link.receive(time.monotonic() + 0.1, hurry, 1.0)
    hurry.set()
    begun = time.monotonic()
    with pytest.raises(ZygoteDiedError, match="it fell silent"):
        link.receive(begun + 60, hurry, 0.1)
    assert time.monotonic() - begun < 10 and link.alive
