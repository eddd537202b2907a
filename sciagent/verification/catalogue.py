"""The declarations of all registered verifiers, for `sciagent verifiers`; an error for one that fails to load."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from sciagent.chemistry.subjects.registry import subject_names, subject_of
from sciagent.domain.candidates import Candidate
from sciagent.domain.properties import PropertyAtLevel
from sciagent.errors import SimulatorError, UsageError
from sciagent.programs import Program, find
from sciagent.verification.availability import missing_of
from sciagent.verification.contract import BaseVerifier
from sciagent.verification.registry import check_measures, provider, verifier_class, verifier_names


def samples_of() -> dict[str, Candidate]:
    """Returns the samples of all subjects by name, for which costs are shown; none of a subject whose libraries are
    missing."""
    found: dict[str, Candidate] = {}
    for name in subject_names():
        with suppress(UsageError):
            subject = subject_of(name)
            found |= {label: subject.read(text) for label, text in subject.samples.items()}
    return found


def catalogue(samples: Mapping[str, Candidate]) -> Sequence[Mapping[str, Any]]:
    """Returns an entry for every verifier, sorted by tier and name. samples: {name: candidate} for example costs."""
    order = {"fast": 0, "simulation": 1, "high_fidelity": 2, "world": 3, "": 4}
    entries = [entry(name, samples) for name in verifier_names()]
    return sorted(entries, key=lambda item: (order[item["tier"]], item["name"]))


def entry(name: str, samples: Mapping[str, Candidate]) -> Mapping[str, Any]:
    """Returns the entry of one verifier with its default settings. Raises UnknownNameError.

    Key `needs`: settings without a default; if there are any, `measures` and `cost` are empty. Key `error`: why the
    verifier cannot be used; the entry then has little else. Key `missing`: what this machine lacks to run it."""
    if name not in verifier_names():
        verifier_class(name)
    try:
        verifier_type = verifier_class(name)
        needs = [key for key, field in verifier_type.Settings.model_fields.items() if field.is_required()]
        measures: Sequence[PropertyAtLevel] = ()
        costs: Sequence[Mapping[str, Any]] = []
        if not needs:
            verifier = verifier_type()
            check_measures(verifier, provider(name))
            measures, costs = verifier.measures, _costs(verifier, samples)
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
            {"property": p.name, "unit": p.unit, "level": level.label, "description": p.description}
            for p, level in ((measure.property, measure.level) for measure in measures)
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
    """Returns the program's name and variable, and its file and version here, or why it is not available."""
    entry = {"name": program.name, "title": program.title, "variable": program.variable}
    try:
        found = find(program)
    except SimulatorError as error:
        return {**entry, "path": None, "version": None, "missing": error.detail}
    return {**entry, "path": str(found.path), "version": found.version, "missing": None}


def _costs(verifier: BaseVerifier[Any], samples: Mapping[str, Candidate]) -> Sequence[Mapping[str, Any]]:
    """Returns the declared costs of the samples that the verifier accepts."""
    return [
        {"candidate": name, "atoms": candidate.n_atoms, **verifier.cost(candidate)}
        for name, candidate in samples.items()
        if verifier.takes(candidate.kind) and verifier.accepts(candidate) is None
    ]


def _settings(model: type[BaseModel], prefix: str = "") -> Iterator[Mapping[str, Any]]:
    """Yields an entry for every setting; a nested setting is named by its path."""
    for name, field in model.model_fields.items():
        inner = field.annotation
        default = None if field.default is PydanticUndefined else field.default
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            about = field.description or _about(inner)
            yield {"name": prefix + name, "takes": "settings", "default": None, "required": False, "about": about}
            yield from _settings(inner, f"{prefix}{name}.")
            continue
        if field.default_factory is not None:
            default = field.get_default(call_default_factory=True, validated_data={})
        shown = default.model_dump(mode="json") if isinstance(default, BaseModel) else default
        yield {
            "name": prefix + name,
            "takes": _takes(inner),
            "default": list(shown) if isinstance(shown, tuple | set | frozenset) else shown,
            "required": field.is_required(),
            "about": field.description or "",
        }


def _takes(annotation: Any) -> str:
    """Returns the type in plain words for authors of YAML files."""
    words = {str: "text", int: "whole number", float: "number", bool: "true or false", type(None): "nothing"}
    if annotation in words:
        return words[annotation]
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
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
