"""Verifiers that hang, crash, lie and leave daemons behind, each in its own way."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from sciagent.domain.properties_and_levels import LOGP
from sciagent.verification import verifier_contract
from sciagent.verification.sandbox.messages import finding_to_wire
from sciagent.verification.verifier_contract import (
    ArtifactFile,
    Context,
    Cost,
    Finding,
    Level,
    Measured,
    Outcome,
    PropertyAtLevel,
    Quantity,
    Reason,
    Refusal,
    SimulatorError,
    Tier,
    Verifier,
)

LEVEL = Level("nonsense")


class Base(Verifier[Any]):
    version = "1"
    tier = Tier.FAST

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return verifier_contract.at(LEVEL, LOGP)

    def cost(self, candidate: Any) -> Cost:
        return Cost(core_seconds=0.001)

    def verify(self, batch: Sequence[Any], context: Context) -> Iterator[Finding]:
        for candidate in batch:
            yield self.one(candidate, context)

    def one(self, candidate: Any, context: Context) -> Finding:
        return self.good(candidate)

    def good(self, candidate: Any, **more: Any) -> Finding:
        return Finding(candidate.key, Outcome.OK, (Measured("logp", LEVEL, Quantity(1.0, "1")),), **more)


class Declares(Base):
    """Does `what` where it is asked for the declaration that `where` names."""

    name = "bad.declares"

    class Settings(verifier_contract.Settings):
        where: str = ""
        what: str = ""

    def _do(self, where: str) -> None:
        if where != self.settings.where:
            return
        match self.settings.what:
            case "leave":
                os._exit(3)
            case "hang":
                time.sleep(3600)
            case "stop":
                os.kill(os.getppid(), signal.SIGSTOP)
                time.sleep(3600)
            case "memory":
                bytearray(1 << 40)
            case "print":
                print("a line that is no answer")
                os.write(1, b"{}\n")

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        self._do("measures")
        return super().measures

    @property
    def gates(self) -> Any:
        self._do("gates")
        return {"logp": (None, 3.0)}

    def accepts(self, candidate: Any) -> Refusal | None:
        self._do("accepts")
        return Refusal(Reason.TOO_LARGE, "as told") if candidate.text == "CC" else None

    def cost(self, candidate: Any) -> Cost:
        self._do("cost")
        return Cost(core_seconds=0.25)


class Noop(Base):
    """Does nothing, well. `burn`: seconds of CPU time. `refuse`: a SMILES outside its method."""

    name = "bad.noop"
    engines: ClassVar[tuple[str, ...]] = ("numpy", "not-installed-engine")
    warmed_in: ClassVar[int] = 0

    @classmethod
    def warm(cls) -> None:
        cls.warmed_in = os.getpid()

    class Settings(verifier_contract.Settings):
        burn: float = 0.0
        refuse: str = ""

    def accepts(self, candidate: Any) -> Refusal | None:
        return Refusal(Reason.TOO_LARGE, "as told") if candidate.text == self.settings.refuse else None

    def one(self, candidate: Any, context: Context) -> Finding:
        end = time.process_time() + self.settings.burn
        while time.process_time() < end:
            pass
        assert context.checkpoint.is_dir()
        here = [path.name for path in Path().iterdir()]
        return self.good(
            candidate, diagnostics={"threads": os.environ["OMP_NUM_THREADS"], "cwd": here, "warmed_in": self.warmed_in}
        )


class Quick(Noop):
    """The same as a paid rung; says which process it ran in."""

    name = "bad.quick"
    tier = Tier.SIMULATION

    def one(self, candidate: Any, context: Context) -> Finding:
        return self.good(candidate, diagnostics=super().one(candidate, context).diagnostics | {"pid": os.getpid()})


class Once(Base):
    """Works once in a process: whoever comes second finds what the first has left, and dies of it."""

    name = "bad.once"
    used: ClassVar[bool] = False

    def one(self, candidate: Any, context: Context) -> Finding:
        if Once.used:
            ctypes.string_at(0)
        Once.used = True
        return self.good(candidate, diagnostics={"pid": os.getpid()})


class Hang(Base):
    """Sleeps, in `accepts` if told so, for ever or only at one SMILES."""

    name = "bad.hang"

    class Settings(verifier_contract.Settings):
        early: bool = False
        at: str = ""

    def accepts(self, candidate: Any) -> Refusal | None:
        if self.settings.early and candidate.text == self.settings.at:
            time.sleep(1000)
        return None

    def one(self, candidate: Any, context: Context) -> Finding:
        if not self.settings.at or candidate.text == self.settings.at:
            time.sleep(1000)
        return self.good(candidate)


class Memory(Base):
    """Asks for more than it may have: at once, in children of its own, or as a C library that then aborts."""

    name = "bad.memory"

    class Settings(verifier_contract.Settings):
        how: str = "at_once"

    def one(self, candidate: Any, context: Context) -> Finding:
        if self.settings.how == "children":
            code = "import time; kept = bytearray(b'x' * (60 << 20)); time.sleep(100)"
            children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(6)]
            children[0].wait()
        if self.settings.how == "abort":
            os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
            os.abort()
        kept = [bytearray(b"x" * (64 << 20)) for _ in range(200)]
        return self.good(candidate, detail=str(len(kept)))


class Segfault(Base):
    name = "bad.segfault"

    def one(self, candidate: Any, context: Context) -> Finding:
        ctypes.string_at(0)
        return self.good(candidate)


class Silent(Base):
    """Ends, and says nothing."""

    name = "bad.silent"

    class Settings(verifier_contract.Settings):
        how: str = "os_exit"

    def verify(self, batch: Sequence[Any], context: Context) -> Iterator[Finding]:
        if self.settings.how == "os_exit":
            os._exit(0)
        if self.settings.how == "sys_exit":
            sys.exit(0)
        if self.settings.how == "stop_parent":
            os.kill(os.getppid(), signal.SIGSTOP)
            time.sleep(3600)
        if self.settings.how == "status":
            os._exit(3)
        yield from ()


class Rubbish(Base):
    """Prints rubbish; with `pipes`, writes it into every open file descriptor as well; with `forged`, a finding that
    is good but for what comes with it (`junk`) or how it is written (`utf-16-le`)."""

    name = "bad.rubbish"

    class Settings(verifier_contract.Settings):
        pipes: bool = False
        forged: str = ""
        flood: int = 0
        extra: bool = False
        nothing_like: bool = False
        undeclared: bool = False

    def verify(self, batch: Sequence[Any], context: Context) -> Iterator[Finding]:
        for candidate in batch:
            yield self.one(candidate, context)
        if self.settings.extra:
            yield self.good(batch[-1])

    def one(self, candidate: Any, context: Context) -> Finding:
        print('{"finding": "no"}\n\0\x1b[31m' * 50)
        os.write(1, b"\xff\xfe{]\n")
        os.write(2, b"Segmentation fault (not really)\n")
        if self.settings.pipes:
            for fd in range(3, 64):
                try:
                    os.write(fd, b'{"finding": {}}\n\xff rubbish\n')
                except OSError:
                    pass
        if self.settings.forged:
            message = {"finding": finding_to_wire(self.good(candidate)), "cpu": 0.0}
            line = json.dumps(message).encode()
            if self.settings.forged == "junk":
                line = line[:-1] + b', "more": ' + b"[" * 900 + b"]" * 900 + b"}"
            else:
                line = json.dumps(message).encode(self.settings.forged)
            for fd in range(3, 64):
                with contextlib.suppress(OSError):
                    os.write(fd, line + b"\n")
        if self.settings.flood:
            return self.good(candidate, detail="x", diagnostics={"flood": "x" * self.settings.flood})
        if self.settings.nothing_like:
            return "all is well"  # type: ignore[return-value]
        if self.settings.undeclared:
            measured = (Measured("logp", Level("another"), Quantity(1.0, "1")),)
            return Finding(candidate.key, Outcome.OK, measured)
        return self.good(candidate)


class Forks(Base):
    """Leaves daemons: forked twice, each in a session of its own. Then all is well, or it hangs."""

    name = "bad.forks"

    class Settings(verifier_contract.Settings):
        daemons: int = 3
        then_hang: bool = False

    def one(self, candidate: Any, context: Context) -> Finding:
        for _ in range(self.settings.daemons):
            pid = os.fork()
            if not pid:
                os.setsid()
                if os.fork():
                    os._exit(0)
                subprocess.Popen(["sleep", "1000"], start_new_session=True)
                time.sleep(1000)
                os._exit(0)
            os.waitpid(pid, 0)
        if self.settings.then_hang:
            time.sleep(1000)
        return self.good(candidate)


class NotConverged(Base):
    """The engine leaves with 0 and a number, but its own flag says no."""

    name = "bad.notconverged"

    class Settings(verifier_contract.Settings):
        reason: str = "scf_not_converged"

    def one(self, candidate: Any, context: Context) -> Finding:
        done = subprocess.run(["sh", "-c", "echo 'energy -40.1 converged false'"], capture_output=True, check=True)
        if b"converged true" not in done.stdout:
            raise SimulatorError("not_converged", self.settings.reason, done.stdout.decode().strip())
        return self.good(candidate)


class Raises(Base):
    name = "bad.raises"

    class Settings(verifier_contract.Settings):
        what: str = "ZeroDivisionError"
        early: bool = False

    def accepts(self, candidate: Any) -> Refusal | None:
        if self.settings.early:
            raise ValueError("early")
        return None

    def one(self, candidate: Any, context: Context) -> Finding:
        if self.settings.what == "ImportError":
            import an_engine_that_nobody_has  # noqa: F401
        if self.settings.what == "MemoryError":
            raise MemoryError
        return self.good(candidate, detail=str(1 / 0))


class Costly(Base):
    """Cannot say what it costs at one SMILES, or at all. `how`: negative | nan | none | huge | exit."""

    name = "bad.cost"
    tier = Tier.SIMULATION

    class Settings(verifier_contract.Settings):
        how: str = "negative"
        at: str = ""

    def cost(self, candidate: Any) -> Cost:
        if self.settings.at and candidate.text != self.settings.at:
            return super().cost(candidate)
        match self.settings.how:
            case "negative":
                return Cost(core_seconds=-1)
            case "nan":
                return Cost(core_seconds=float("nan"))
            case "none":
                return None  # type: ignore[return-value]
            case "huge":
                return Cost(core_seconds=1e300)
        sys.exit(0)


class NotFinite(Base):
    """Numbers and names that no finding may carry. `what`: nan | inf | property | unit | reason | diagnostics."""

    name = "bad.nan"

    class Settings(verifier_contract.Settings):
        what: str = "nan"

    def one(self, candidate: Any, context: Context) -> Finding:
        finding = self.good(candidate)
        one = finding.measured[0]
        match self.settings.what:
            case "nan" | "inf" as what:
                object.__setattr__(one.quantity, "value", float(what))
            case "unit":
                object.__setattr__(one.quantity, "unit", "furlong")
            case "property":
                object.__setattr__(one, "property", "charisma")
            case "reason":
                object.__setattr__(finding, "outcome", Outcome.NOT_CONVERGED)
                object.__setattr__(finding, "reason", "mercury_retrograde")
            case "diagnostics":
                finding.diagnostics["depth"] = {"deep": [float("nan")]}
        return finding


class WrongKey(Base):
    name = "bad.wrongkey"

    def one(self, candidate: Any, context: Context) -> Finding:
        return Finding("0" * 64, Outcome.OK)


class Poison(Base):
    """Dies at one SMILES; `early`: while it is asked whether it accepts it."""

    name = "bad.poison"

    class Settings(verifier_contract.Settings):
        smiles: str
        early: bool = False

    def accepts(self, candidate: Any) -> Refusal | None:
        if self.settings.early and candidate.text == self.settings.smiles:
            ctypes.string_at(0)
        return None

    def one(self, candidate: Any, context: Context) -> Finding:
        if candidate.text == self.settings.smiles:
            ctypes.string_at(0)
        return self.good(candidate)


class Files(Base):
    """Leaves one artifact at `path`: a file it writes, unless the path names something else."""

    name = "bad.files"

    class Settings(verifier_contract.Settings):
        path: str = "out.txt"
        link_to: str = ""
        name: str = "out.txt"

    def one(self, candidate: Any, context: Context) -> Finding:
        path = Path(self.settings.path)
        Path("loop").symlink_to("loop")
        if self.settings.link_to:
            path.symlink_to(self.settings.link_to)
        elif self.settings.path == "pipe":
            os.mkfifo(path)
        elif not path.is_absolute() and ".." not in path.parts and path.name not in ("", "loop"):
            path.write_text(candidate.text)
        return self.good(candidate, artifacts=(ArtifactFile(self.settings.name, str(path), "text/plain"),))
