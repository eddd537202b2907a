"""Validates a YAML document and turns errors, pydantic's and those of validators, into plain messages with a hint.

Names of files are relative to the document's folder; they are checked while it is validated.
"""

from __future__ import annotations

import hashlib
import re
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, ValidationInfo
from pydantic_core import InitErrorDetails, PydanticCustomError

from sciagent.errors import SpecError, did_you_mean
from sciagent.inputs.names_outside_the_file import Outside
from sciagent.inputs.yaml_document import MAX_FAULTS, Document, Fault, Loc, kind_of, report

Model = TypeVar("Model", bound=BaseModel)
UnknownKey = Callable[[Loc, Any, type[BaseModel]], tuple[str, str]]
"""A function from the path of an unknown key, the data and the model of the file to (message, hint)."""

FAULT = "spec"  # kind of the errors that `fault` makes, among pydantic's own kinds
NAME = r"^[a-z0-9][a-z0-9_-]{0,63}$"
LAW_NAME = r"^[a-z0-9][a-z0-9_-]{0,63}(@[0-9a-f]{4,64})?$"  # of a law entry, with the digits of a version or without
"""Pattern of a name in a file."""
_NAME_RULE = 'takes 1 to 64 of a-z, 0-9, "_" and "-", the first a letter or digit'
_BOUNDS = {
    "greater_than": ("gt", "must be greater than"),
    "greater_than_equal": ("ge", "must be at least"),
    "less_than": ("lt", "must be less than"),
    "less_than_equal": ("le", "must be at most"),
}
_WANTED = {  # by the first word of pydantic's kind of error
    "string": "must be text",
    "float": "must be a number",
    "int": "must be a whole number",
    "bool": "must be true or false",
    "dict": "must be a mapping",
    "model": "must be a mapping",
    "list": "must be a list",
    "tuple": "must be a list",
}
_EMPTY = "has no value; give one, or delete the line"


class Part(BaseModel):
    """Base class of the parts of a campaign file or a recipe: unknown keys are refused, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Faults:
    """Collects mistakes at places relative to the object under validation; the end of the `with` block raises them
    together as a ValidationError, to which pydantic adds its own path."""

    def __enter__(self) -> Faults:
        self.details: list[InitErrorDetails] = []
        return self

    def add(self, loc: Sequence[int | str], message: str, hint: str = "", on_key: bool = False) -> None:
        """Adds a mistake. on_key: whether the mistake is the key at `loc` rather than its value."""
        self.take(loc, fault(message, hint, on_key=on_key))

    def take(self, loc: Sequence[int | str], error: PydanticCustomError) -> None:
        """Adds a mistake made by `fault`, at a place."""
        self.details.append(InitErrorDetails(type=error, loc=tuple(loc), input=None))

    def take_all(self, loc: Sequence[int | str], error: ValidationError) -> None:
        """Adds the mistakes of a part that was validated by itself, at its place."""
        for each in error.errors(include_url=False):
            context = each.get("ctx", {})
            # pydantic takes the kinds of its own errors by name, and a fault only as an object
            kind = PydanticCustomError(FAULT, "{message}", context) if each["type"] == FAULT else each["type"]
            place = (*loc, *each["loc"])
            self.details.append(InitErrorDetails(type=kind, loc=place, input=each["input"], ctx=context))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.details and kind is None:
            raise ValidationError.from_exception_data("faults", self.details)


def fault(message: str, hint: str = "", *, on_key: bool = False) -> PydanticCustomError:
    """Returns the mistake of one field, for its validator to raise."""
    return PydanticCustomError(FAULT, "{message}", {"message": message, "hint": hint, "on_key": on_key})


def unknown_key(loc: Loc, data: Any, root: type[BaseModel]) -> tuple[str, str]:
    """Returns message and hint for a key that no model at its place takes."""
    known = keys_at(loc[:-1], data, root)
    return f"unknown key{did_you_mean(str(loc[-1]), known)}", f"allowed: {', '.join(known)}" if known else ""


def validated(
    document: Document,
    name: str,
    root: type[Model],
    *,
    context: Mapping[str, Any] | None = None,
    unknown: UnknownKey = unknown_key,
    further: Callable[[Any], object] = lambda data: None,
) -> Model:
    """Returns the model of a document. Raises SpecError with all its mistakes.

    name: name of the file, for messages. root: model of the whole file. further: raises ValidationError for mistakes in
    the data that pydantic does not look for after a first one.
    """
    faults = list(document.faults)
    if isinstance(document.data, dict):
        try:
            model = root.model_validate(document.data, context=context)
            if not faults:
                return model
        except ValidationError as error:
            errors = error.errors(include_url=False)
            try:
                further(document.data)
            except ValidationError as more:
                errors += more.errors(include_url=False)
            explained = [
                _explain(item, document, root, unknown) for item in errors[:MAX_FAULTS] if not _is_consequence(item)
            ]
            # a part that could not be read is in document.faults already
            faults += [fault for fault in explained if not document.broken(fault.loc)]
    raise SpecError(report(name, faults))


def _explain(error: Mapping[str, Any], document: Document, root: type[BaseModel], unknown: UnknownKey) -> Fault:
    """Returns one error of pydantic as a fault at its place in the file."""
    loc = _without_kinds(tuple(error["loc"]), document.data)
    kind = str(error["type"])
    context: Mapping[str, Any] = error.get("ctx") or {}
    value = error.get("input")
    on_key = kind in ("extra_forbidden", "missing")
    hint = ""
    if kind == "extra_forbidden":
        message, hint = unknown(loc, document.data, root)
    elif kind == "missing":
        message = "required, and missing"
    elif kind in ("union_tag_not_found", "union_tag_invalid", "literal_error", "enum"):
        loc = (*loc, "kind") if kind.startswith("union") else loc
        message, hint = _not_among(kind, value, context)
    elif kind == FAULT:
        message = str(context["message"])
        hint = str(context["hint"])
        on_key = bool(context.get("on_key"))
    else:
        message = _EMPTY if value is None else _unfit_value(kind, value, context, str(error["msg"]))
    line, column = document.locate(loc, on_key)
    message_in_one_line = " ".join(message.split())
    return Fault(line, column, message_in_one_line, loc, hint)


def _unfit_value(kind: str, value: Any, context: Mapping[str, Any], message: str) -> str:
    """Returns why a value is not valid. message: pydantic's message."""
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        bound = context[key]
        shown_bound = f"{bound:g}" if isinstance(bound, int | float) else bound
        return f"{words} {shown_bound}, not {value}"
    wanted = _WANTED.get(kind.split("_")[0])
    if wanted and kind.endswith(("_type", "_from_float", "_parsing")):
        quote = "; put it in quotes" if kind == "string_type" and isinstance(value, int | float) else ""
        return f"{wanted}, not {kind_of(value)}{quote}"
    if kind == "string_pattern_mismatch":
        return f'"{value}" is no name; a name {_NAME_RULE}'
    if kind == "too_short":
        return "needs at least one entry"
    return message.removeprefix("Value error, ")


def _is_consequence(error: Mapping[str, Any]) -> bool:
    """Returns whether a list is "too short" only because of invalid entries, which are reported one by one."""
    value = error.get("input")
    return error["type"] == "too_short" and isinstance(value, list) and len(value) >= error["ctx"]["min_length"]


def _not_among(kind: str, value: Any, context: Mapping[str, Any]) -> tuple[str, str]:
    """Returns (message, hint) for a value that is none of the allowed ones."""
    expected_key = "expected_tags" if kind.startswith("union") else "expected"
    expected = str(context.get(expected_key, ""))
    known = re.findall(r"'([^']*)'", expected)
    hint = f"allowed: {', '.join(known) or expected}"
    if kind == "union_tag_not_found":
        return "required, and missing", hint
    value = context.get("tag", value) if kind == "union_tag_invalid" else value
    if value is None:
        return _EMPTY, hint
    near = did_you_mean(value, known) if isinstance(value, str) else ""
    text = f'"{value}"' if isinstance(value, str) else kind_of(value)
    return f"{text} is not known here{near}", hint


def _without_kinds(loc: Loc, data: Any) -> Loc:
    """Returns the path in the file; pydantic's path also contains the `kind` of a chosen union member."""
    kept: list[int | str] = []
    value = data
    for part in loc:
        if isinstance(value, dict) and part not in value and value.get("kind") == part:
            continue
        if value is not None and not isinstance(value, dict | list):
            break  # below a plain value the parts are names of pydantic's own branches
        value = _entry(value, part)
        kept.append(part)
    return tuple(kept)


def _entry(container: Any, part: int | str) -> Any:
    """Returns the entry of a mapping or list under a key or position; None if there is none."""
    if isinstance(container, dict):
        return container.get(part)
    if isinstance(container, list) and isinstance(part, int) and part < len(container):
        return container[part]
    return None


def keys_at(loc: Loc, data: Any, root: type[BaseModel]) -> list[str]:
    """Returns the keys that the mapping at `loc` takes; empty if any key is allowed or the model is ambiguous."""
    models = [root]
    for part in loc:
        data = _entry(data, part)
        fields = [model.model_fields[str(part)] for model in models if part in model.model_fields]
        if fields:  # else part is an index, or a key of a mapping of models
            models = []
            for field in fields:
                models.extend(_models(field.annotation))
        kind = data.get("kind") if isinstance(data, dict) else None
        models_of_kind = [model for model in models if kind in _kinds(model)]
        models = models_of_kind or models
    if len(models) != 1:
        return []
    return [field.alias or name for name, field in models[0].model_fields.items()]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yields the models in an annotation such as `dict[str, A | B]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models(argument)


def _kinds(model: type[BaseModel]) -> tuple[Any, ...]:
    """Returns the values that the model takes as its `kind`; empty if it has no such field."""
    if "kind" not in model.model_fields:
        return ()
    return typing.get_args(model.model_fields["kind"].annotation)


def file_hash(path: Path) -> str:
    """Returns the SHA-256 hash of a file, or of the names and hashes of the files in a folder. Raises OSError."""
    if path.is_dir():
        lines = [f"{file_hash(each)}  {each.name}\n" for each in sorted(path.iterdir()) if each.is_file()]
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def length_of_beginning(path: Path, sha256: str) -> int | None:
    """Returns how many bytes at the beginning of a file, up to the end of a line, have this SHA-256; None if none have.

    So a file is recognised to which lines were added at its end. Raises OSError."""
    digest = hashlib.sha256()
    length = 0
    with path.open("rb") as stream:
        for line in stream:
            content = line.rstrip(b"\r\n")
            for part in (content, line[len(content) :]):  # the last line may have had no line feed
                digest.update(part)
                length += len(part)
                if digest.hexdigest() == sha256:
                    return length
    return None


PROPOSER_RUNS = "proposer_runs"
"""Key of the context of a validation: whether the campaign's proposer will run; without the key, it will."""


def proposer_will_run(context: Mapping[str, Any] | None) -> bool:
    """Returns whether the proposer will run, so that its package and its files must be there. context: of the
    validation, with the folder of the campaign file as `base`; without a folder, no campaign runs."""
    stated = context or {}
    return stated.get("base") is not None and bool(stated.get(PROPOSER_RUNS, True))


def check_file(value: str, info: ValidationInfo) -> str:
    """Returns the name of a file. Raises a fault for an unreadable file if the folder of the document is known.

    A campaign whose proposer will not run may name files that are gone.
    """
    return check_path(value, info, folders=False)


def check_path(value: str, info: ValidationInfo, folders: bool) -> str:
    """Returns the name of a file, or of a folder of files if `folders`. Raises a fault as `check_file`."""
    context = info.context or {}
    if not proposer_will_run(context):
        return value
    try:
        path = Path(context["base"]) / value
        if folders and path.is_dir():
            return value
        if not path.is_file():
            what = "is not a regular file" if path.exists() else "does not exist"
            raise fault(f'"{value}" {what}', "relative paths start at the folder of the campaign file")
        path.open("rb").close()
    except OSError as error:
        raise fault(f'"{value}" cannot be read: {error.strerror or error}') from None
    return value


AnyFile = Annotated[str, AfterValidator(check_file), Outside.FILE]
"""The name of a file, relative to the campaign file."""
