"""Runs a self-contained Python script by the interpreter of another environment, with JSON files in and out.

The script imports nothing of sciagent. It is copied into the working folder and reads `INPUT.json` there. It writes
`OUTPUT.json`, an object with these keys:

- `result`, an object; or `failure`, {"reason": a value of `Reason`, "detail": text}
- `versions`, {name: version} of what it used; may be left out
- `ranks`, the number of MPI processes; needed if there are several. Only the process of rank 0 writes the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import SimulatorError
from sciagent.programs import Program
from sciagent_simulators.geometry_and_its_checks import failure
from sciagent_simulators.programs.run_program_and_name_failure import (
    COMMON_REASONS,
    ProgramOutput,
    Reasons,
    failed,
    mpi_launcher,
    run,
)

INPUT = "INPUT.json"
OUTPUT = "OUTPUT.json"
SCRIPT = "script.py"
MAX_OUTPUT = 16 << 20  # bytes
TAIL = 2000  # characters of the output that the diagnostics of a failure keep
PYTHON_REASONS: Reasons = {
    r"(?m)^[\w.]*MemoryError\b.*$": Reason.MEMORY_LIMIT,
    r"(?m)^(ModuleNotFound|Import)Error\b.*$": Reason.PROGRAM_MISSING,
    **COMMON_REASONS,
    r"(?m)^[A-Za-z_][\w.]*(Error|Exception|Exit)(: .*)?$": Reason.EXCEPTION,
}
"""The reasons of uncaught exceptions, by the last line of their traceback."""


@dataclass(frozen=True)
class ScriptAnswer:
    """The answer of a script that has ended well."""

    result: Mapping[str, Any]
    """The object `result` of its output file. Its content is not checked."""
    versions: Mapping[str, str]
    """Versions for `Finding.versions`: of the interpreter's package, of Open MPI if it was used, and those that the
    script names. A name from the script is written as `gpaw/ase`, since sciagent's own ase may have another version."""
    output: ProgramOutput
    """The program's output and its folder, with the files that the script wrote."""


def run_script(
    interpreter: Program,
    script: Path,
    request: Mapping[str, Any],
    folder: Path,
    *,
    ranks: int = 1,
    threads: int = 1,
    reasons: Reasons | None = None,
) -> ScriptAnswer:
    """Runs the script in the new folder and returns its answer.

    interpreter: made by `sciagent.programs.interpreter`. request: JSON, the content of `INPUT.json`. ranks: number of
    MPI processes, each with one thread. reasons: of failures that are known by the printed text only.
    Raises SimulatorError: for a failure that the script states in its output file, for one that the printed text shows,
    and crashed (bad_result) for an output file of another form.
    """
    files = {INPUT: json.dumps(request), SCRIPT: script.read_text(encoding="utf-8")}
    all_reasons = {**(reasons or {}), **PYTHON_REASONS}
    threads_of_process = threads if ranks == 1 else 1
    output = run(interpreter, arguments=[SCRIPT], folder=folder, threads=threads_of_process, files=files, ranks=ranks)
    answer = _answer(output, all_reasons)
    if answer.get("failure"):
        raise _named_failure(answer["failure"], output)
    if output.status:
        raise failed(output, all_reasons, missing="")  # `missing` is for exit status 0
    if ranks > 1 and answer.get("ranks") != ranks:
        detail = (
            f"{ranks} processes were started, and the script sees {answer.get('ranks', 1)}: {interpreter.title} was "
            "built without MPI, or with another one"
        )
        raise failure(Reason.PROGRAM_MISSING, detail)
    versions = answer.get("versions", {})
    if not isinstance(answer.get("result"), dict) or not isinstance(versions, dict):
        raise failure(Reason.BAD_RESULT, f"{OUTPUT} of {interpreter.title} lacks the object `result` or `versions`")
    all_versions = {interpreter.name: output.version}
    if ranks > 1:
        all_versions["openmpi"] = mpi_launcher(ranks).version
    for name, version in versions.items():
        all_versions[f"{interpreter.name}/{name}"] = str(version)
    return ScriptAnswer(answer["result"], all_versions, output)


def _answer(output: ProgramOutput, reasons: Reasons) -> Mapping[str, Any]:
    """Returns the content of the output file. Raises SimulatorError with the reason where there is none."""
    file = output.folder / OUTPUT
    if not file.is_file():
        raise failed(output, reasons, f"has written no {OUTPUT}")
    if file.stat().st_size > MAX_OUTPUT:
        raise failure(Reason.BAD_RESULT, f"{OUTPUT} has more than {MAX_OUTPUT >> 20} MB")
    try:
        answer = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise failed(output, reasons, f"{OUTPUT} has no JSON form: {error}") from error
    if not isinstance(answer, dict):
        raise failure(Reason.BAD_RESULT, f"{OUTPUT} is no JSON object")
    return answer


def _named_failure(named: object, output: ProgramOutput) -> SimulatorError:
    """Returns the error for a failure that the script names. named: the value of `failure` in its output file."""
    unknown = f"{OUTPUT} has a failure without a known reason"
    if not isinstance(named, dict):
        return failure(Reason.BAD_RESULT, f"{unknown}: no object")
    try:
        reason = Reason(named["reason"])
        detail = str(named["detail"])[:400]
    except (KeyError, ValueError) as error:
        return failure(Reason.BAD_RESULT, f"{unknown}: {error}")
    return failure(reason, detail, output_tail=output.text[-TAIL:])
