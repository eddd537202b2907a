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
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from sciagent.domain.outcomes import Outcome, Reason
from sciagent.verification.contract import Verifier
from sciagent.verification.registry import provider, receive, verifier_class
from sciagent.verification.sandbox import processes
from sciagent.verification.sandbox.job import Job
from sciagent.verification.sandbox.watch import Watch, failure
from sciagent.verification.sandbox.wire import dumps

IMPORT_SECONDS = 300
METHANE = {"smiles": "C", "multiplicity": 1}


class DriverGoneError(BaseException):
    """The driver has ended."""


class Control:
    """The socket to the driver: each line in is a job or `{"cancel": number}`, each line out is an event."""

    def __init__(self, connection: socket.socket, driver: int) -> None:
        self.driver = driver
        """A pidfd that becomes readable when the driver has ended."""
        self.fd = connection.fileno()
        self._socket = connection
        self._buffer = b""
        self.cancelled: set[int] = set()

    def first(self) -> Mapping[str, Any]:
        """Returns the first line, with the worker's folder, working directory and environment."""
        while b"\n" not in self._buffer:
            if not (chunk := self._socket.recv(1 << 16)):
                raise DriverGoneError
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        request: Mapping[str, Any] = json.loads(line)
        return request

    def read(self) -> list[Job]:
        """Returns the received jobs. Cancellations are kept in `cancelled`, since they may arrive before their job.

        Raises DriverGoneError at the end of file.
        """
        with contextlib.suppress(BlockingIOError):
            while chunk := self._socket.recv(1 << 16, socket.MSG_DONTWAIT):
                self._buffer += chunk
            raise DriverGoneError
        *lines, self._buffer = self._buffer.split(b"\n")
        messages = [json.loads(line) for line in lines]
        self.cancelled.update(message["cancel"] for message in messages if "cancel" in message)
        return [Job.from_wire(message) for message in messages if "cancel" not in message]

    def check(self) -> None:
        """Raises DriverGoneError if the driver has ended; a fork of it may still hold the socket open."""
        if processes.readable([self.driver], 0):
            raise DriverGoneError

    def say(self, event: str, **more: Any) -> None:
        self._write(dumps({"event": event, **more}))

    def pass_on(self, findings: Sequence[tuple[bytes, Mapping[str, Any]]]) -> None:
        """Sends checked findings to the driver as the child wrote them, each with its event's further fields."""
        self._write(
            b"".join(dumps({"event": "finding", **more})[:-2] + b',"sent":' + line + b"}\n" for line, more in findings)
        )

    def _write(self, line: bytes) -> None:
        try:
            self._socket.sendall(line)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise DriverGoneError from error

    def close(self) -> None:
        self._socket.close()
        os.close(self.driver)


@cache
def load(name: str) -> type[Verifier[Any]]:
    """Returns the verifier's class after importing its modules and warming it. Raises the exception of an import."""
    signal.alarm(IMPORT_SECONDS)  # ends the zygote if an import hangs
    try:
        kind = verifier_class(name)
        for module in ("sciagent.chemistry.payload", f"sciagent.chemistry.{kind.kind}", *kind.preload):
            importlib.import_module(module)
        kind.warm()
        if kind.kind == "molecule":  # makes RDKit build its tables of the first use
            _ = sys.modules["sciagent.chemistry.payload"].candidate_from_payload("molecule", METHANE).key
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
            load(name)(json.loads(settings)).attach()
    finally:
        signal.alarm(0)


def versions(kind: type[Verifier[Any]]) -> dict[str, str]:
    """Returns the versions of Python, sciagent, the verifier's package, RDKit and the verifier's engines, by name."""
    package, _, version = provider(kind.name).rpartition(" ")
    versions_ = {"python": ".".join(map(str, sys.version_info[:3]))} | ({package: version} if package else {})
    for name in ("sciagent", "rdkit", *kind.engines):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions_[name] = metadata.version(name)
    return versions_


def serve(control: Control, folder: Path) -> None:
    """Runs the jobs of the driver. Raises DriverGoneError when the driver has ended."""
    known: dict[str, dict[str, str]] = {}
    while True:
        for job in control.read():
            try:
                kind = load(job.verifier)
            except (Exception, SystemExit) as error:  # noqa: BLE001  a plug-in may raise anything
                detail = f"{type(error).__name__}: {error}"
                wrong = failure(job.candidates[0].key, Outcome.BAD_ENVIRONMENT, Reason.IMPORT_FAILED, detail)
                control.say("end", failure=wrong, whole=True, cpu=0.0, wall=0.0, index=0)
                continue
            if kind.attach is not Verifier.attach:
                attach(job.verifier, json.dumps(job.settings, sort_keys=True))
            if job.verifier not in known:
                known[job.verifier] = versions(kind)
                gc.collect()
                gc.freeze()  # keeps garbage collection in a child from copying shared memory pages
            control.say("started", versions=known[job.verifier])
            control.say("end", whole=False, **Watch(job, folder, control).run(kind))
        if control.fd not in processes.readable([control.fd, control.driver]):
            raise DriverGoneError


def main(connection: socket.socket, driver: int, nursery: int) -> None:
    """Serves the driver until it or the nursery ends. connection: socket to the driver. driver: its pidfd."""
    signal.signal(signal.SIGTERM, _terminated)
    processes.die_with(nursery, signal.SIGTERM)
    os.setsid()
    control = Control(connection, driver)
    request = control.first()
    folder, marker = Path(request["folder"]), os.environ[processes.MARKER]
    try:
        _settle(folder, request["cwd"], {**request["environment"], processes.MARKER: marker})
        control.say("born", pid=os.getpid())
        serve(control, folder)
    except DriverGoneError:
        pass
    finally:
        processes.kill_descendants()
        shutil.rmtree(folder, ignore_errors=True)


def _settle(folder: Path, cwd: str, environment: Mapping[str, str]) -> None:
    """Takes over the driver's environment and working directory, and redirects output to a file."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(folder / "zygote.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    for number, fd in enumerate((nothing, log, log)):  # engines write to standard output
        os.dup2(fd, number)
    os.close(nothing)
    os.close(log)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # makes tempfile read TMPDIR again
    os.chdir(cwd)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    processes.become_subreaper()
    receive(folder)


def _terminated(number: int, frame: object) -> None:
    raise DriverGoneError
