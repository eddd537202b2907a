"""`sciagent law`: laws of structures that are fitted to what campaigns measured, kept in the ledger under a name.

`sciagent predict`: predictions of such a law for structures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sciagent.api.terminal_tables_and_signals import Line, Part, plain_table
from sciagent.cli import options
from sciagent.cli.output_logging_and_given_structures import open_ledger, plural, put_answer, structure
from sciagent.domain.safe_text_and_durations import Paragraph, short
from sciagent.errors import UsageError

if TYPE_CHECKING:
    from sciagent.campaign.law.law_commands import ListedLaw, Predictions, ShownLaw
    from sciagent.campaign.law.predictions import LawCheck, PredictedQuantity
    from sciagent.chemistry.molecule_files import StructureRecord
    from sciagent.scheduling.law.left_out_calibration import SimilarityBin, WidthCalibration

MAX_SHOWN = 48  # characters of a structure in a table
NEAR = 0.05  # a factor on widths that differs less from 1 is not told
app = typer.Typer(help="Laws of structures, fitted to what campaigns measured.", no_args_is_help=True)
Name = typer.Argument(metavar="NAME", help="NAME, its newest version, or NAME@HASH.")


@app.callback()
def _group() -> None:
    """Laws of structures, fitted to what campaigns measured."""


@app.command(epilog="Example: sciagent law fit gaps uv-absorbers uv-2 --quantity homo_lumo_gap")
def fit(
    name: str = typer.Argument(metavar="NAME", help="Name of the law."),
    campaigns: list[str] = typer.Argument(metavar="CAMPAIGN...", help="Campaigns whose values it remembers."),
    quantity: list[str] | None = typer.Option(
        None, "--quantity", "-q", metavar="NAME", help="A property; default: all that decide an objective. Repeat it."
    ),
    other: list[str] | None = typer.Option(
        None, "--from-ledger", metavar="URL", help="A ledger in which the campaigns are looked for, too. Repeat it."
    ),
    ledger: options.Ledger = None,
    who: options.Who = None,
    json: options.Json = False,
) -> None:
    """Fit a law to what campaigns measured, and keep it in the ledger as the newest version of its name.

    Values of another verifier, another version of it or other settings are refused by name. The widths of its
    predictions are calibrated on answers that are left out with their whole campaign.
    """
    from re import fullmatch

    from sciagent.campaign.law import law_commands
    from sciagent.inputs.environment_variables import user
    from sciagent.inputs.yaml_validation import NAME

    if fullmatch(NAME, name) is None:
        raise UsageError(f'"{short(name, 80)}" is no name: use small letters, digits, - and _, at most 64')
    opened = open_ledger(ledger, create=True)
    others = [open_ledger(url) for url in other or []]
    shown = law_commands.fit(opened, name, campaigns, others=others, quantities=quantity or (), who=who or user())
    put_answer(shown, json, _law_parts(shown))


@app.command("list", epilog="Example: sciagent law list")
def list_(ledger: options.Ledger = None, json: options.Json = False) -> None:
    """List the laws of the ledger, the oldest first."""
    from sciagent.campaign.law import law_commands

    listed = law_commands.listed(open_ledger(ledger))
    notes = () if listed else ("no laws yet: sciagent law fit NAME CAMPAIGN",)
    put_answer(listed, json, [_law_table(listed)] if listed else [], *notes)


def _law_table(listed: Sequence[ListedLaw]) -> Part:
    columns = ("law", "kind", "quantity", "level", "values", "campaigns", "by", "at")
    table = plain_table(*columns, left=("law", "kind", "quantity", "level", "by", "at"))
    for each in listed:
        for place, quantity in enumerate(each.quantities):
            first = [each.law, each.kind] if not place else ["", ""]
            last = [str(each.n_campaigns), each.who, f"{each.at:%Y-%m-%d %H:%M}"] if not place else ["", "", ""]
            unit = "" if quantity.unit == "1" else f" [{quantity.unit}]"
            table.add_row(*first, f"{quantity.name}{unit}", quantity.level, str(quantity.n), *last)
    return table


@app.command(epilog="Example: sciagent law show gaps")
def show(name: str = Name, ledger: options.Ledger = None, json: options.Json = False) -> None:
    """Show what a law was fitted to, how its predictions held of left-out answers, and the campaigns that use it."""
    from sciagent.campaign.law import law_commands

    shown = law_commands.show(open_ledger(ledger), name)
    put_answer(shown, json, _law_parts(shown))


def _law_parts(shown: ShownLaw) -> Iterator[Part]:
    before = f", after {shown.before[:8]}" if shown.before else ""
    yield Paragraph(
        f"{shown.law}  {shown.kind}s of {plural(len(shown.campaigns), 'campaign')}: {', '.join(shown.campaigns)}"
        f"{before}"
    )
    if shown.used_by:
        yield Paragraph(f"used by {', '.join(shown.used_by)}")
    columns = ("quantity", "level", "values", "transform", "similar", "linear", "noise")
    table = plain_table(*columns, title="Laws (standard deviations in units of the spread)", left=columns[:2])
    for law in shown.quantities:
        amplitudes = (law.amplitude_similarity, law.amplitude_linear, law.noise)
        unit = "" if law.unit == "1" else f" [{law.unit}]"
        table.add_row(
            f"{law.name}{unit}", law.level, str(law.n), law.transform, *(f"{each:.2g}" for each in amplitudes)
        )
    yield table
    for law in shown.quantities:
        yield from _calibration_parts(law.name, law.unit, law.held)


def _calibration_parts(name: str, unit: str, held: WidthCalibration) -> Iterator[Part]:
    if not held.groups:
        why = "fewer than three campaigns, and all candidates of one family, so that nothing can be left out"
        yield Paragraph(f"{name}: {why}: its intervals are not calibrated")
        return
    tail = "" if unit == "1" else f" {unit}"
    error = "" if held.median_error is None else f", median error {held.median_error:.2g}{tail}"
    title = f"{name}: {held.n} left-out answers, {_percent(held.covered)} in their 90 % intervals{error}"
    median_error = f"median error{tail and f' [{unit}]'}"
    table = plain_table("similarity", "answers", "in 90 % intervals", median_error, "width factor", title=title)
    for each in held.bins:
        median = "" if each.median_error is None else f"{each.median_error:.2g}"
        table.add_row(f"{each.low:g} to {each.high:g}", str(each.n), _held(each), median, f"{each.factor:.2f}")
    yield table


def _percent(share: float | None) -> str:
    return "too few to count" if share is None else f"{100 * share:.0f} %"


def _held(each: SimilarityBin) -> str:
    return "not counted yet" if each.covered is None else f"{100 * each.covered:.0f} %"


@app.command(epilog="Example: sciagent law check gaps uv-3")
def check(
    name: str = Name,
    campaigns: list[str] = typer.Argument(metavar="CAMPAIGN...", help="Campaigns to which it was not fitted."),
    plot: Path | None = typer.Option(
        None,
        "--plot",
        metavar="FILE",
        help="Draw measured against predicted values, and hits by chances: .png or .svg.",
    ),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Show how the predictions of a law hold for campaigns to which it was not fitted.

    Candidates of which it has a value are left out. Said chances of hits are compared with the share of hits.
    """
    from sciagent.campaign.law import law_commands
    from sciagent.report.parts.law_charts import draw_check
    from sciagent.training.evaluation.arm_figures import check_plot

    if plot is not None:
        check_plot(plot)
    found = law_commands.check(open_ledger(ledger), name, campaigns)
    if plot is not None:
        draw_check(found, plot)
    put_answer(found, json, _check_parts(found))


def _check_parts(found: LawCheck) -> Iterator[Part]:
    if found.known:
        yield Paragraph(f"{plural(found.known, 'candidate')} left out, of which the law has a value")
    for each in found.quantities:
        yield from _calibration_parts(each.name, each.unit, each.held)
    if found.chances:
        table = plain_table("said", "candidates", "mean said", "hits", title="Chances to be a hit")
        for chances in found.chances:
            said = f"{chances.low:.3f} to {chances.high:.3f}"
            table.add_row(said, str(chances.n), f"{chances.said:.3f}", f"{chances.real:.3f}")
        yield table


@app.command(epilog="Example: sciagent law delete gaps@5c22afeb")
def delete(name: str = Name, ledger: options.Ledger = None, json: options.Json = False) -> None:
    """Delete a version of a law that no campaign uses."""
    from sciagent.campaign.law import law_commands

    removed = law_commands.delete(open_ledger(ledger), name)
    put_answer(removed, json, [Line(f"{removed.law} is deleted")])


def predict(
    texts: list[str] | None = typer.Argument(
        None, metavar="[STRUCTURE]...", help="Molecules as SMILES; crystals as files or prototypes."
    ),
    law: str | None = typer.Option(None, "--law", metavar="NAME", help="A law of the ledger; see `sciagent law`."),
    campaign: str | None = typer.Option(
        None,
        "--campaign",
        "-c",
        help="A campaign whose own answers count, and whose hits are asked for; without --law a law is fitted to it.",
    ),
    files: list[Path] | None = typer.Option(
        None, "--file", "-f", metavar="FILE", help="More: csv, smi or sdf; cif and others for crystals. Repeatable."
    ),
    column: str | None = typer.Option(None, help="The column of a csv with the structures; default: smiles."),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Predict what a verifier would say of structures, from what campaigns measured.

    Each value has its error, its 90 % interval, the nearest measured structure, and how often intervals held of
    structures as far from all that was measured. Nothing is computed and nothing is written.
    """
    from sciagent.campaign.law import law_commands

    if not texts and not files:
        raise UsageError("give molecules as SMILES or crystals as files or prototypes, or a table of them with --file")
    opened = open_ledger(ledger)
    given = _given(texts or [])
    found = law_commands.predict(opened, given, files=files or (), column=column, law=law, campaign=campaign)
    notes = [f"{_called(each.name, each.text)}: {each.reason}" for each in found.unread]
    if not (found.structures or found.unread):
        notes = [f"no structures in {', '.join(map(str, files or ()))}"]
    put_answer(found, json, [_prediction_table(found), *_caveat_lines(found)] if found.structures else [], *notes)
    raise typer.Exit(1 if notes else 0)


def _given(texts: Sequence[str]) -> list[StructureRecord]:
    """Returns the structures that texts are, or that the files hold which they name, with the names of the files; of a
    file that cannot be read, the reason."""
    from sciagent.chemistry.molecule_files import StructureRecord

    given = []
    for number, text in enumerate(texts):
        names = {"file": Path(text).name} if Path(text).suffix and Path(text).is_file() else {}
        try:
            given.append(StructureRecord(number, structure(text), names))
        except UsageError as error:
            given.append(StructureRecord(number, "", {"file": Path(text).name}, str(error)))
    return given


def _called(name: str, text: str) -> str:
    """Returns a name before a text; the text alone without one."""
    return f"{name} {short(text, 80)}".strip()


def _caveat_lines(found: Predictions) -> Iterator[Part]:
    """Yields why structures are no hits whatever their values, and why intervals may not hold."""
    for each in found.structures:
        called = _called(each.name, each.structure)
        if each.missed is not None:
            yield Paragraph(f"{called}: {found.campaign} would refuse it: {each.missed}")
        for quantity in each.quantities:
            if quantity.caveat is not None:
                yield Paragraph(f"{called}: {quantity.name}: {quantity.caveat}: its interval may not hold")
    own = {q.name: q.own_factor for each in found.structures for q in each.quantities if abs(q.own_factor - 1) >= NEAR}
    for name, factor in own.items():
        yield Paragraph(
            f"{name}: by the errors of {found.campaign}'s own answers, intervals are {factor:.2f} times as wide as "
            "those of which it is told how often they held"
        )


def _prediction_table(found: Predictions) -> Part:
    has_chances = any(each.p_hit is not None for each in found.structures)
    columns = ["structure", "quantity", "predicted", "90 % interval", "nearest measured", "intervals held"]
    if has_chances:
        columns.append("chance of a hit")
    title = f"By the law {found.law}" + (f", with the answers of {found.campaign}" if found.campaign else "")
    table = plain_table(*columns, title=title, left=("structure", "quantity", "nearest measured"))
    for each in found.structures:
        for place, quantity in enumerate(each.quantities):
            row = [short(_called(each.name, each.structure), MAX_SHOWN) if not place else ""]
            row += _quantity_cells(quantity)
            if has_chances:
                row.append(f"{each.p_hit:.2f}" if each.p_hit is not None and not place else "")
            table.add_row(*row)
    return table


def _quantity_cells(quantity: PredictedQuantity) -> Sequence[str]:
    from sciagent.domain.quantities import value_text
    from sciagent.report.parts.law_predictions import held_text, interval_text, predicted_text

    if quantity.known is not None:
        return [quantity.name, f"{value_text(quantity.known, None, quantity.unit)} measured", "", "", ""]
    nearest = ""
    if quantity.nearest:
        first = quantity.nearest[0]
        nearest = f"{short(first.structure, MAX_SHOWN)} ({first.similarity:.2f}): {first.value:.3g}"
    held = None if quantity.held is None else quantity.held.covered
    n_held = None if quantity.held is None else quantity.held.n
    return [
        quantity.name,
        predicted_text(quantity.value, quantity.uncertainty, quantity.unit),
        interval_text(quantity.low, quantity.high),
        nearest,
        held_text(held, n_held, quantity.caveat),
    ]
