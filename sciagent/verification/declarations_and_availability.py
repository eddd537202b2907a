"""The declarations of the installed verifiers, and whether each verifier can run on this machine.

`sciagent verifiers` and `sciagent doctor` show both. A verifier may run in this environment or in one of its own. A
verifier that fails to load is listed with its error.

`python -m sciagent.verification.declarations_and_availability` answers for the environment of its interpreter. The
question, as JSON on standard input, has the verifier's name and settings. The answer has the verifier's version, the
hash of its settings, and what it lacks there.
"""

from __future__ import annotations

import inspect
import json
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_names, subject_of
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.properties_and_levels import PropertyAtLevel
from sciagent.errors import SciagentError, SimulatorError, UsageError
from sciagent.inputs import engine_environments
from sciagent.programs import Program, find
from sciagent.verification.verifier_contract import BaseVerifier
from sciagent.verification.verifier_registry import check_measures, provider, verifier_class, verifier_names

OR_NOTHING = " or nothing"
"""The end of what an optional setting takes."""
SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
"""The signs of limits, by pydantic's names for them."""


def unavailable(verifier: BaseVerifier[Any]) -> str | None:
    """Returns None if a job of the verifier can run on this machine, else what is missing and how to get it."""
    try:
        python = interpreter_of(verifier)
        if python is None:
            return _missing_here(verifier)
        settings = json.dumps(verifier.request_settings, sort_keys=True)
        versions = engine_environments.inspect_once(python)
        answer = _answer_of(python, versions, verifier.name, settings)
    except SciagentError as error:
        return str(error)
    if answer["missing"] is not None:
        return f"in the environment {verifier.runs_in}: {answer['missing']}"
    # The other environment does not know the campaign, so the hash here is made without it, too.
    verifier_hash = type(verifier)(verifier.settings).settings_hash
    if (answer["version"], answer["settings_hash"]) != (verifier.version, verifier_hash):
        return (
            f"the environment {verifier.runs_in} has version {answer['version']} of {verifier.name} or other defaults, "
            f"and this is version {verifier.version}; install the same packages in both"
        )
    return None


def interpreter_of(verifier: BaseVerifier[Any]) -> Path | None:
    """Returns the interpreter that runs the verifier's jobs; None for the interpreter of this process.

    If the verifier's environment is not listed on this machine, this environment must have the engine. Raises
    UsageError if it lacks it."""
    name = verifier.runs_in
    if name is None:
        return None
    python = engine_environments.environments().get(name)
    if python is None:
        missing_here = _missing_here(verifier)
        if missing_here is None:
            return None
        raise UsageError(
            f"{verifier.name} runs in an environment of its own, {name}, which is not listed on this machine: "
            f"sciagent engines {name} --python PATH; and in the present environment: {missing_here}"
        )
    return None if _is_this(python) else python


def missing_of(kind: type[BaseVerifier[Any]]) -> str | None:
    """Returns what a verifier with default settings lacks on this machine; None if it lacks nothing.

    If a setting has no default, the class itself is asked."""
    if any(field.is_required() for field in kind.Settings.model_fields.values()):
        return _guarded(kind.missing)
    return unavailable(kind())


def _missing_here(verifier: BaseVerifier[Any]) -> str | None:
    """Returns what the verifier lacks in the environment of this process; None if it lacks nothing."""
    return _guarded(verifier.lacks)


def _guarded(ask: Callable[[], object]) -> str | None:
    """Returns the answer of a plug-in as one line, or the exception that it raised instead; None for no answer.

    ask: the method of the plug-in that says what is missing."""
    try:
        answer = ask()
    except Exception as error:  # noqa: BLE001  a plug-in may raise anything
        return f"missing() fails: {type(error).__name__}: {error}"[:500]
    return None if answer is None else " ".join(str(answer).split())[:1000]


def _is_this(python: Path) -> bool:
    """Returns whether the interpreter runs this process. Interpreters in different folders belong to different
    environments, also if they are links to the same file."""
    return python.parent == Path(sys.executable).parent and python.resolve() == Path(sys.executable).resolve()


@lru_cache(maxsize=256)
def _answer_of(python: Path, versions: tuple[tuple[str, str], ...], name: str, settings: str) -> Mapping[str, Any]:
    """Returns the answer of another environment on the verifier `name`. Raises UsageError.

    versions: package versions of the environment; after a change of them the environment is asked again. settings: the
    verifier's settings as JSON."""
    question = json.dumps({"verifier": name, "settings": json.loads(settings)})
    answer: Mapping[str, Any] = json.loads(engine_environments.printed_by(python, "-m", __name__, stdin=question))
    if "error" in answer:
        raise UsageError(f"{python}: {answer['error']}")
    return answer


def main() -> None:
    """Answers the question on standard input."""
    question = json.load(sys.stdin)
    try:
        verifier = verifier_class(question["verifier"])(question["settings"])
        missing = _missing_here(verifier)
        answer = {"version": verifier.version, "settings_hash": verifier.settings_hash, "missing": missing}
    except (SciagentError, ValueError, TypeError) as error:
        answer = {"error": f"{type(error).__name__}: {error}"[:1000]}
    sys.stdout.write(f"{json.dumps(answer)}\n")


def samples_of() -> dict[str, Candidate]:
    """Returns the sample candidates of all subjects by name; their costs are shown.

    A subject whose libraries are missing has no samples."""
    samples: dict[str, Candidate] = {}
    for name in subject_names():
        with suppress(UsageError):
            subject = subject_of(name)
            samples.update({label: subject.read(text) for label, text in subject.samples.items()})
    return samples


def declared_programs() -> list[Program]:
    """Returns the programs that the installed verifiers declare, each once, sorted by name. A verifier that does not
    load declares none."""
    declared: set[Program] = set()
    for name in verifier_names():
        with suppress(UsageError):
            verifier_type = verifier_class(name)
            declared.update(verifier_type.programs)
            declared.update(verifier_type.optional_programs)
    return sorted(declared, key=lambda program: (program.name, program.variable))


def catalogue(samples: Mapping[str, Candidate]) -> Sequence[Mapping[str, Any]]:
    """Returns an entry for every verifier, sorted by tier and name. samples: {name: candidate} for example costs."""
    order = {"fast": 0, "simulation": 1, "high_fidelity": 2, "world": 3, "": 4}  # "": an entry with an error
    entries = [entry(name, samples) for name in verifier_names()]
    return sorted(entries, key=lambda item: (order[item["tier"]], item["name"]))


def entry(name: str, samples: Mapping[str, Candidate]) -> Mapping[str, Any]:
    """Returns the entry of one verifier with its default settings. Raises UnknownNameError.

    Key `needs`: settings without a default; if there are any, `measures` and `cost` are empty. Key `error`: why the
    verifier cannot be used; the entry then has little else. Key `missing`: what this machine lacks to run it."""
    if name not in verifier_names():
        verifier_class(name)  # raises UnknownNameError
    try:
        verifier_type = verifier_class(name)
        needs = [key for key, field in verifier_type.Settings.model_fields.items() if field.is_required()]
        measures: Sequence[PropertyAtLevel] = ()
        costs: Sequence[Mapping[str, Any]] = []
        if not needs:
            verifier = verifier_type()
            check_measures(verifier, provider(name))
            measures = verifier.measures
            costs = _costs(verifier, samples)
    except Exception as error:  # noqa: BLE001 - one broken third-party verifier must not hide the others
        reason = str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"
        return {"name": name, "tier": "", "package": provider(name), "error": " ".join(reason.split())[:500]}
    return {
        "name": name,
        "tier": str(verifier_type.tier),
        "package": provider(name),
        "error": None,
        "version": verifier_type.version,
        "kind": verifier_type.kind,
        "about": inspect.cleandoc(verifier_type.__doc__ or ""),
        "measures": [
            {
                "property": measure.property.name,
                "unit": measure.property.unit,
                "level": measure.level.label,
                "description": measure.property.description,
            }
            for measure in measures
        ],
        "settings": list(_settings(verifier_type.Settings)),
        "settings_about": _about(verifier_type.Settings),
        "needs": needs,
        "cost": costs,
        "priors": [asdict(p) for p in verifier_type.priors],
        "method_errors": [asdict(error) for error in verifier_type.method_errors],
        "engines": list(verifier_type.engines),
        "requires": list(verifier_type.requires),
        "environment": verifier_type.environment,
        "missing": missing_of(verifier_type),
        "programs": [_program(program) for program in verifier_type.programs],
        "reusable": verifier_type.reusable,
    }


def _program(program: Program) -> Mapping[str, Any]:
    """Returns the program's names and variable, and its file and version here, or why it is not available."""
    declaration = {"name": program.name, "title": program.title, "variable": program.variable}
    try:
        found = find(program)
    except SimulatorError as error:
        return {**declaration, "path": None, "version": None, "missing": error.detail}
    return {**declaration, "path": str(found.path), "version": found.version, "missing": None}


def _costs(verifier: BaseVerifier[Any], samples: Mapping[str, Candidate]) -> Sequence[Mapping[str, Any]]:
    """Returns the declared costs of the samples that the verifier accepts."""
    return [
        {"candidate": name, "atoms": candidate.n_atoms, **verifier.cost(candidate)}
        for name, candidate in samples.items()
        if verifier.takes(candidate.kind) and verifier.accepts(candidate) is None
    ]


def _settings(model: type[BaseModel], prefix: str = "") -> Iterator[Mapping[str, Any]]:
    """Yields an entry for every setting of the model; the name of a nested setting is its path.

    prefix: the path of the model, with a dot at its end; empty for the outermost model."""
    for name, field in model.model_fields.items():
        annotation = field.annotation
        default = None if field.default is PydanticUndefined else field.default
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            about = field.description or _about(annotation)
            yield {"name": prefix + name, "takes": "settings", "default": None, "required": False, "about": about}
            yield from _settings(annotation, f"{prefix}{name}.")
            continue
        if field.default_factory is not None:
            default = field.get_default(call_default_factory=True, validated_data={})
        shown = default.model_dump(mode="json") if isinstance(default, BaseModel) else default
        yield {
            "name": prefix + name,
            "takes": with_limits(_takes(annotation), _limits(field)),
            "default": list(shown) if isinstance(shown, tuple | set | frozenset) else shown,
            "required": field.is_required(),
            "about": field.description or "",
        }


def with_limits(takes: str, limits: Mapping[str, float]) -> str:
    """Returns what a setting takes with the limits of its number, such as `number ≥ 100 ≤ 700`.

    limits: by sign. The words for an optional setting, `or nothing`, stand after them."""
    optional = OR_NOTHING if takes.endswith(OR_NOTHING) else ""
    stated = "".join(f" {sign} {limit:g}" for sign, limit in limits.items())
    return takes.removesuffix(OR_NOTHING) + stated + optional


def _limits(field: FieldInfo) -> Mapping[str, float]:
    """Returns the limits of a setting by their signs."""
    limits: dict[str, float] = {}
    for stated in field.metadata:
        for name, sign in SIGNS.items():
            limit = getattr(stated, name, None)
            if isinstance(limit, int | float):
                limits[sign] = limit
    return limits


def _takes(annotation: Any) -> str:
    """Returns the type in plain words for authors of YAML files."""
    words = {str: "text", int: "whole number", float: "number", bool: "true or false", type(None): "nothing"}
    if annotation in words:
        return words[annotation]
    origin = typing.get_origin(annotation)
    args = typing.get_args(annotation)
    if origin is typing.Literal:
        return ", ".join(str(a) for a in args)
    if origin is typing.Annotated:
        return _takes(args[0])
    if origin in (tuple, list, set, frozenset):
        return f"list of {_takes(args[0])}" if args else "list"
    if origin is dict:
        return "mapping"
    if args:  # a union
        return " or ".join(dict.fromkeys(_takes(a) for a in args))
    return getattr(annotation, "__name__", str(annotation))


def _about(model: type[BaseModel]) -> str:
    """Returns the model's own docstring, not an inherited one."""
    return inspect.cleandoc(model.__dict__.get("__doc__") or "")


if __name__ == "__main__":
    main()
