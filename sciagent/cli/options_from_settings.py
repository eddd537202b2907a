"""Options of `sciagent train` and `sciagent dataset build`, made from the fields of their settings."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from sciagent.errors import UsageError
from sciagent.training.settings import CheckedSettings, CountsFor, NoOption, Option, RunSettings, SettingsGroup

Checked = TypeVar("Checked", bound=CheckedSettings)
Command = Callable[..., None]


class FieldOption(NamedTuple):
    """An option, and the field whose value it states."""

    model: type[SettingsGroup]
    """The settings that have the field."""
    path: tuple[str, ...]
    """Name of the field. For a field of settings within settings, the names of the outer and of the inner field."""
    field: FieldInfo
    names: tuple[str, ...]
    """The option as it is typed."""
    mark: Option
    """How the field is stated on the command line, where that does not follow from its name and type."""
    counts_for: tuple[str, ...]
    """The trainings, or kinds of data sets, for which it counts; empty: all."""


def options_of(model: type[SettingsGroup]) -> Iterator[FieldOption]:
    """Yields the options of settings, in the order of the fields; settings within settings have their own."""
    for name, field in model.model_fields.items():
        option_marks = [mark for mark in field.metadata if isinstance(mark, Option)]
        mark = option_marks[0] if option_marks else Option()
        counts_for_marks = [mark for mark in field.metadata if isinstance(mark, CountsFor)]
        counts_for = counts_for_marks[0].kinds if counts_for_marks else ()
        type_, _ = _type_and_bounds(field.annotation, field.metadata)
        if any(isinstance(mark, NoOption) for mark in field.metadata):
            continue
        if mark.parse is None and isinstance(type_, type) and issubclass(type_, SettingsGroup):
            for inner in options_of(type_):
                yield inner._replace(model=model, path=(name, *inner.path), counts_for=counts_for)
        else:
            names = mark.names or (f"--{name.replace('_', '-')}",)
            yield FieldOption(model, (name,), field, names, mark, counts_for)


def with_options(
    *models: type[CheckedSettings], kind: str | None = None, without: type[SettingsGroup] | None = None
) -> Callable[[Command], Command]:
    """Returns a decorator for commands: their parameter `stated` is replaced by options for the fields of settings.

    The command gets the values of the options that were typed, by field. kind: of the training; options that do not
    count for it are hidden, and are refused by the settings. without: settings whose options the command does not have.
    """
    offered: dict[str, list[FieldOption]] = {}  # {name of the parameter: its option in each model that has it}
    for model in models:
        for option in options_of(model):
            if without is None or option.path[0] not in without.model_fields:
                offered.setdefault("_".join(option.path), []).append(option)
    parameters = []
    for name, same_options in offered.items():
        is_shared = len(same_options) == len(models)
        parameters.append(_parameter(name, same_options, is_shared, kind))

    def decorated(command: Command) -> Command:
        @functools.wraps(command)
        def called(typer_context: typer.Context, **values: Any) -> None:
            stated: dict[str, Any] = {}
            for name, same_options in offered.items():
                option = same_options[0]  # the models differ only in its description
                value = values.pop(name)
                source = typer_context.get_parameter_source(name)
                if source is not None and source.name == "COMMANDLINE":
                    _state(stated, option, value)
            command(stated=stated, **values)

        shown = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            if parameter.name == "stated":
                shown += parameters
            else:
                shown.append(parameter)
        shown.append(inspect.Parameter("typer_context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context))
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
        called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        return called

    return decorated


def _state(stated: dict[str, Any], option: FieldOption, value: Any) -> None:
    """Writes the value of a typed option into `stated`, at the path of its field."""
    parsed = value if option.mark.parse is None else option.mark.parse(value)
    *outer_names, name = option.path
    holder = stated
    if outer_names:
        holder = stated.setdefault(outer_names[0], {})
    holder[name] = parsed


def settings_of(
    model: type[Checked], stated: Mapping[str, Any], other: type[RunSettings] | None = None, **given: Any
) -> Checked:
    """Returns the settings that options state. Raises UsageError, which names the options.

    other: settings of another source, whose options the command takes as well. given: values that no option states.
    """
    names: dict[tuple[str, ...], str] = {}
    if other is not None:
        names.update({option.path: option.names[0] for option in options_of(other)})
    names.update({option.path: option.names[0] for option in options_of(model)})

    def name_of(place: Sequence[int | str]) -> str:
        """Returns the option of a field, or the options that state parts of the field."""
        path = tuple(map(str, place))
        for known_path in (path, path[:1]):
            if known_path in names:
                return names[known_path]
        parts = stated.get(path[0])
        part_names = parts if isinstance(parts, dict) else {}
        options_of_parts = [names[*path, part] for part in part_names if (*path, part) in names]
        return ", ".join(options_of_parts) or ".".join(path)

    for name in stated:
        if other is not None and name not in model.model_fields:
            raise UsageError(f"{name_of([name])} is for {other.SOURCE}, and has no effect on {model.SOURCE}")
    return model.model_validate({**stated, **given}, context={"name_of": name_of})


def _parameter(name: str, variants: Sequence[FieldOption], is_shared: bool, kind: str | None) -> inspect.Parameter:
    """Returns the parameter of a command for an option.

    variants: the option in each model that has it. is_shared: whether all models of the command have it. kind: of the
    training; None for all kinds.
    """
    option = variants[0]
    field = option.field
    type_, bounds = _type_and_bounds(field.annotation, field.metadata)
    has_text = option.mark.parse is not None
    is_repeated = has_text or get_origin(type_) is tuple
    descriptions = {each.field.description for each in variants}
    default = None  # where the descriptions differ, each of them states its default
    if len(descriptions) == 1 and not is_repeated and not field.is_required():
        default = field.get_default(call_default_factory=True)
    if is_repeated:
        type_ = list[str] if has_text else list[get_args(type_)[0]]  # type: ignore[misc]
    # the other required options are missed only when the settings are made
    if field.is_required() and is_shared and len(option.path) == 1:
        default = inspect.Parameter.empty
    is_hidden = kind is not None and bool(option.counts_for) and kind not in option.counts_for
    panel = None if is_shared else f"Options for {getattr(option.model, 'SOURCE', '')}"
    typer_option = typer.Option(
        *option.names,
        help=_help(variants, is_repeated, kind),
        metavar=option.mark.metavar,
        min=bounds.get("min"),
        max=bounds.get("max"),
        hidden=is_hidden,
        rich_help_panel=panel,
    )
    if default is None:
        type_ = type_ | None
    kind_of_parameter = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind_of_parameter, default=default, annotation=Annotated[type_, typer_option])


def _help(variants: Sequence[FieldOption], is_repeated: bool, kind: str | None) -> str:
    """Returns the help of an option, with the description of each model that describes it in other words."""
    option = variants[0]
    sentences = [str(option.field.description)]
    for other in variants[1:]:
        if other.field.description != option.field.description:
            source = getattr(other.model, "SOURCE", "")
            sentences.append(f"For {source}: {other.field.description} (default: {other.field.default})")
    if is_repeated:
        sentences.append("May be repeated.")
    if kind is None and option.counts_for:
        sentences.append(f"For {', '.join(option.counts_for)}.")
    return " ".join(sentences)


def _type_and_bounds(annotation: Any, metadata: Sequence[Any]) -> tuple[Any, dict[str, float]]:
    """Returns the type of an option for a field, without None, and the bounds of its numbers."""
    bounds = dict[str, float]()
    if get_origin(annotation) is Annotated:
        annotation, *marks = get_args(annotation)
        metadata = [*metadata, *marks]
    if get_origin(annotation) in (Union, UnionType):
        [inner_type] = [member for member in get_args(annotation) if member is not NoneType]
        annotation, bounds = _type_and_bounds(inner_type, ())
    constraints = list[Any]()
    for mark in metadata:
        if isinstance(mark, FieldInfo):
            constraints += mark.metadata
        else:
            constraints.append(mark)
    for constraint in constraints:
        for name, end in (("ge", "min"), ("gt", "min"), ("le", "max"), ("lt", "max")):
            if hasattr(constraint, name):
                bounds[end] = getattr(constraint, name)
    return annotation, bounds
