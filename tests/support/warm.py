"""`python -m sciagent` in a process of its own, forked from one that has imported already what every command imports.

The imports of a run take two seconds of CPU time, and the tests give some hundred commands. What the command finds is
what a fresh interpreter would give it: arguments, environment, working directory, standard streams, no open ledger.
That the imports work in a fresh one is for the tests that start it (test_kill, test_shapes, test_layout).

`python -m tests.support.warm` is the process that is forked: a request a line in, an exit code a line out.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from sciagent.cli.main import command_line
from sciagent.verification.sandbox.nursery_pool_and_links import nurseries

ROOT = Path(__file__).parents[2]
IMPORTED = (
    "sciagent.cli.main",
    "sciagent.api.campaign",
    "sciagent.api.progress_display",
    "sciagent.campaign.core.built_campaign_and_derived_values",
    "sciagent.campaign.driving.driver",
    "sciagent.campaign.file.campaign_spec",
    "sciagent.campaign.pricing.priced_scheduler",
    "sciagent.campaign.people.verify_calculate_and_add",
    "sciagent.chemistry.subjects.molecule",
    "sciagent.report.page.html_page",
    "sciagent.report.export.structure_files",
    "sciagent_verifiers.fast.molecule_checks",
    "sciagent_verifiers.fast.molecule_and_crystal_safety",
    "sciagent_verifiers.high_fidelity.pyscf_orbitals_dipole_energy",
    "sciagent_verifiers.simulation.xtb_singlepoint",
    "alembic.command",
    "jinja2",
    "matplotlib.backends.backend_svg",
    "matplotlib.figure",
    "psycopg",
    "rich._emoji_codes",
    "sqlite3",
)
VERIFIERS = (
    "molecule.checks",
    "molecule.novelty",
    "molecule.safety",
    "molecule.synthesis",
    "xtb.singlepoint",
    "pyscf.scf",
)


class Warm:
    """The process that is forked; one command at a time."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.warm"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def run(
        self, arguments: tuple[str, ...], cwd: Path, environment: dict[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run` of text. Raises TimeoutExpired, after which this process is gone."""
        assert self._process.stdin and self._process.stdout
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            streams = [f"/proc/{os.getpid()}/fd/{one.fileno()}" for one in (out, err)]
            request = {"arguments": arguments, "cwd": str(cwd), "environment": environment, "streams": streams}
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            if not select.select([self._process.stdout], [], [], timeout)[0]:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
                raise subprocess.TimeoutExpired(list(arguments), timeout)
            code = int(self._process.stdout.readline())
            texts = []
            for one in (out, err):
                one.seek(0)
                texts.append(one.read().decode().replace("\r\n", "\n"))
        return subprocess.CompletedProcess(list(arguments), code, *texts)


@cache
def _started(path: str, number: int) -> Warm:
    return Warm(dict(os.environ, PYTHONPATH=path, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1"))


def run(
    arguments: tuple[str, ...], cwd: Path, environment: dict[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """In a child of a process that was started with the same PYTHONPATH: what can be imported hangs on it."""
    number = 0
    while not (warm := _started(environment.get("PYTHONPATH", ""), number)).alive:
        number += 1
    return warm.run(arguments, cwd, environment, timeout)


def _become(request: dict[str, Any]) -> None:
    """In the child: what a fresh interpreter would have been given."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    nothing = os.open(os.devnull, os.O_RDONLY)
    out, err = (os.open(path, os.O_WRONLY | os.O_APPEND) for path in request["streams"])
    for number, opened in enumerate((nothing, out, err)):
        os.dup2(opened, number)
        os.close(opened)
    sys.path[0] = request["cwd"]
    sys.argv = ["sciagent", *request["arguments"]]


def _draw_a_page() -> None:
    """Compile the report's template and draw a chart: what a command does only once, and every run does again."""
    from sciagent.report.page.html_page import environment
    from sciagent.report.parts import campaign_charts

    environment().get_template("report.html.j2")
    campaign_charts.costs("core_seconds", {"rung": {"passed": 1.0}})


def serve() -> bool:
    """True in a child, False in the process that is forked, at the end of its input."""
    for name in IMPORTED:
        importlib.import_module(name)
    command_line()
    nurseries.start(VERIFIERS)  # shared by the commands
    _draw_a_page()
    gc.collect()
    gc.freeze()
    requests, answers = os.fdopen(os.dup(0), "rb", buffering=0), os.dup(1)
    while line := requests.readline():
        if not (child := os.fork()):
            requests.close()
            os.close(answers)
            _become(json.loads(line))
            return True
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.write(answers, f"{code}\n".encode())
    return False


if __name__ == "__main__" and serve():
    runpy.run_module("sciagent", run_name="__main__", alter_sys=True)
