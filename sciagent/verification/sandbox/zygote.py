"""The zygote: the warm process of a worker, forked from a nursery that has imported the verifiers' modules.

It forks a child for each job and supervises its wall time, the memory of its process tree and its messages. It is the
subreaper of its descendants, so no process of a job survives the job. When its driver is gone, it kills them, removes
its folder and ends.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import shutil
import signal
import socket
import sys
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent.programs import find
from sciagent.verification.sandbox import process_trees
from sciagent.verification.sandbox.supervise_job import Control, DriverGoneError, Watch, failure
from sciagent.verification.verifier_contract import ANY_KIND, Verifier
from sciagent.verification.verifier_registry import provider, receive, verifier_class

IMPORT_SECONDS = 300  # time for the imports of a verifier


@cache
def load(name: str) -> type[Verifier[Any]]:
    """Returns the verifier's class after importing its modules and warming it. Raises the exception of an import."""
    signal.alarm(IMPORT_SECONDS)  # ends the zygote if an import hangs
    try:
        kind = verifier_class(name)
        assert issubclass(kind, Verifier), f"{name} is done by people"
        subject = None if kind.kind == ANY_KIND else subject_of(kind.kind)
        modules = ["sciagent.chemistry.subjects.registry_and_candidate_dispatch"]
        if subject is not None:
            modules += subject.preload
        modules += kind.preload
        for module in modules:
            importlib.import_module(module)
        kind.warm()
        if subject is not None:
            subject.warm()
    finally:
        signal.alarm(0)
    return kind


@lru_cache(maxsize=32)
def attach(name: str, settings: str) -> None:
    """Opens the resources that a verifier shares among all jobs with these settings. Errors are ignored; the job meets
    them again and reports them."""
    signal.alarm(IMPORT_SECONDS)
    try:
        with contextlib.suppress(Exception, SystemExit):
            kind = load(name)
            verifier = kind(json.loads(settings))
            verifier.attach()
    finally:
        signal.alarm(0)


def versions(kind: type[Verifier[Any]]) -> dict[str, str]:
    """Returns the versions of Python, sciagent, the verifier's package, the subject's libraries, and the verifier's
    engines and programs, by name."""
    package, _, version = provider(kind.name).rpartition(" ")  # "" for an unknown package
    version_by_name = {"python": ".".join(map(str, sys.version_info[:3]))}
    if package:
        version_by_name[package] = version
    libraries = () if kind.kind == ANY_KIND else subject_of(kind.kind).distributions
    for name in ("sciagent", *libraries, *kind.engines):
        with contextlib.suppress(metadata.PackageNotFoundError):
            version_by_name[name] = metadata.version(name)
    for program in kind.programs:
        with contextlib.suppress(SimulatorError):
            version_by_name[program.name] = find(program).version
    return version_by_name


def serve(control: Control, folder: Path) -> None:
    """Runs the jobs of the driver. Raises DriverGoneError when the driver has ended."""
    versions_by_verifier: dict[str, dict[str, str]] = {}
    while True:
        for job in control.read():
            try:
                kind = load(job.verifier)
            except (Exception, SystemExit) as error:  # noqa: BLE001  a plug-in may raise anything
                detail = f"{type(error).__name__}: {error}"
                wrong = failure(job.candidates[0].key, Outcome.BAD_ENVIRONMENT, Reason.IMPORT_FAILED, detail)
                control.say("end", failure=wrong, whole=True, cpu=0.0, wall=0.0, index=0)
                continue
            # the end of the job before has removed it, and a program that states its version writes there
            (folder / process_trees.TEMPORARY).mkdir(exist_ok=True)
            if kind.attach is not Verifier.attach:
                attach(job.verifier, json.dumps(job.settings, sort_keys=True))
            if job.verifier not in versions_by_verifier:
                versions_by_verifier[job.verifier] = versions(kind)
                gc.collect()
                gc.freeze()  # keeps garbage collection in a child from copying shared memory pages
            control.say("started", versions=versions_by_verifier[job.verifier])
            control.say("end", whole=False, **Watch(job, folder, control).run(kind))
        # waits for a job, or for the end of the driver, whose socket a fork of it may still hold open
        if control.fd not in process_trees.readable([control.fd, control.driver]):
            raise DriverGoneError


def main(connection: socket.socket, driver: int, nursery: int) -> None:
    """Serves the driver until it or the nursery ends. connection: socket to the driver. driver: its pidfd."""
    signal.signal(signal.SIGTERM, _terminated)
    process_trees.die_with(nursery, by=signal.SIGTERM)
    os.setsid()
    control = Control(connection, driver)
    request = control.first()
    folder = Path(request["folder"])
    is_driver_gone = False
    marker = os.environ[process_trees.MARKER]
    try:
        os.environ.clear()
        os.environ.update({**request["environment"], process_trees.MARKER: marker})
        process_trees.redirect(request["cwd"], folder / "zygote.log")
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        process_trees.become_subreaper()
        receive(folder, _restore)
        control.say("born", pid=os.getpid())
        serve(control, folder)
    except DriverGoneError:
        is_driver_gone = True
    finally:
        process_trees.kill_descendants()
        if is_driver_gone:  # a driver that goes on reads the log of another end, and the spooled artifacts
            shutil.rmtree(folder, ignore_errors=True)


def _restore(pickled: bytes) -> None:
    """Defines a verifier of the driver's process in this one."""
    from sciagent.verification.function_verifiers import restore

    restore(pickled)


def _terminated(number: int, frame: object) -> None:
    raise DriverGoneError
