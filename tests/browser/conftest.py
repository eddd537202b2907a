"""A real Chromium without a window. Without one the tests fail: what was not looked at does not work."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
    "--host-resolver-rules=MAP tablet.test 127.0.0.1",
)
expect.set_options(timeout=30_000)  # ms; a machine with other work is slow


@pytest.fixture(scope="module")  # its event loop is gone before another file asks for one
def browser() -> Iterator[Browser]:
    path = os.environ.get("SCIAGENT_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.fail("no Chromium found: apt-get install chromium, or name one in SCIAGENT_CHROMIUM", pytrace=False)
    sandbox = () if os.geteuid() else ("--no-sandbox",)
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=path, args=[*ARGUMENTS, *sandbox])
        yield made
        made.close()
