"""`sciagent add CANDIDATE…` and `sciagent import FILE`: add a person's molecules, and import values from a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sciagent.api.terminal_tables_and_signals import Line
from sciagent.cli import options
from sciagent.cli.lab import next_step
from sciagent.cli.output_logging_and_given_structures import Exit, open_ledger, pairs, put, put_answer, say, structures
from sciagent.domain.candidate_and_its_names_in_files import MOLECULE_KIND
from sciagent.errors import UsageError, did_you_mean
from sciagent.inputs.environment_variables import user

if TYPE_CHECKING:
    from sciagent.api.campaign import Campaign
    from sciagent.campaign.people.verify_calculate_and_add import AddedCandidate
    from sciagent.domain.proposer_interfaces import ProposalIn

MAX_TEXT = 80  # characters of a candidate's text in a line
MAX_FAULTS = 50  # faults of a file that are printed
KEY_DIGITS = 12  # digits of a candidate's key in a line
NO_PARTS = ()  # of an answer whose text is all in its notes
# COLUMN=PROPERTY[UNIT]
_VALUE = re.compile(r"(?P<column>[^=]+)=(?P<property>[a-z0-9_]+)(\[(?P<unit>[^\]]+)\])?")


def add(
    reason: options.Reason,
    candidates: list[str] | None = typer.Argument(
        None, metavar="[CANDIDATE]...", help="Molecules as SMILES; crystals as files or prototypes."
    ),
    campaign: options.Campaign = None,
    file: Path | None = typer.Option(None, "--file", "-f", help="More: csv, smi or sdf; cif and others for crystals."),
    column: str | None = typer.Option(None, help="The column of a csv with the structures; default: smiles."),
    ledger: options.Ledger = None,
    as_who: options.Who = None,
    json: options.Json = False,
) -> None:
    """Bring candidates of your own into a campaign. They are parsed, screened and gated as any other proposal.

    Of the file of the campaign's own screen only the rows are added that are new at its end, with the columns it keeps.

    Exit code 1 if any of them could not be read.
    """
    from sciagent.api.campaign import Campaign
    from sciagent.campaign.people.amend_pause_stop_and_resume import driver_line

    if not candidates and file is None:
        raise UsageError("give molecules as SMILES or crystals as files or prototypes, or a table of them with --file")
    opened = Campaign.open(campaign, open_ledger(ledger))
    rows = []
    counts = {"new": 0, "duplicate": 0, "refused": 0}
    proposals = _proposals(opened, candidates or [], file, column)
    for added in opened.entering(proposals, reason, as_who):  # adds them one by one
        counts[added.status] += 1
        if json:
            rows.append(vars(added))
        else:
            put(_line(added))
    notes = [f"{counts['new']} new, {counts['duplicate']} there already, {counts['refused']} refused"]
    if counts["new"]:
        notes.append(driver_line(opened.ledger.store, opened.name))
    put_answer({"campaign": opened.name, **counts, "candidates": rows}, json, NO_PARTS, *notes)
    if counts["refused"]:
        raise typer.Exit(Exit.FAILED)


def _proposals(campaign: Campaign, texts: list[str], file: Path | None, column: str | None) -> Iterator[ProposalIn]:
    """Yields the candidates of the command line, then the candidates of the file."""
    from sciagent.domain.proposer_interfaces import ProposalIn

    yield from map(ProposalIn, structures(texts))
    if file is not None:
        yield from campaign.proposals_of_file(file, column)


def _line(added: AddedCandidate) -> str:
    text = added.text[:MAX_TEXT] or "(nothing)"
    if added.status == "refused":
        return f"refused    {text}: {added.reason}: {added.detail}"
    standing = str(added.standing)
    if added.reason:
        standing += f" ({added.reason}: {added.detail})"
    status = "new" if added.status == "new" else "there"
    short_key = (added.key or "")[:KEY_DIGITS]
    made = f" -> {added.candidate} ({added.note})" if added.note else ""
    return f"{status:<10} {short_key}  {text}{made}: {standing}"


def import_(
    file: Path = typer.Argument(help="A CSV or an Excel workbook (.xlsx) with a header."),
    value: list[str] = typer.Option(..., help="COLUMN=PROPERTY[UNIT]; UNIT may name a column. Repeat it."),
    method: str = typer.Option("", help="How it was obtained: experiment, B3LYP, GFN2-xTB, …; needed without --rung."),
    basis: str = typer.Option(""),
    phase: str = typer.Option("", help="gas, water, solid, …"),
    uncertainty: list[str] | None = typer.Option(None, help="COLUMN=NUMBER or COLUMN=COLUMN; standard uncertainty."),
    cost: list[str] | None = typer.Option(
        None, help="RESOURCE=NUMBER or RESOURCE=COLUMN: what each row cost, such as money=40. Repeat it."
    ),
    column: str | None = typer.Option(None, help="The column with the structures; default: smiles."),
    subject: str = typer.Option(
        MOLECULE_KIND, help="What the rows are about: molecule, crystal, or the name of another installed subject."
    ),
    parent: bool = typer.Option(False, "--parent", help="Keep the parent molecule of salts; default: refuse them."),
    ph: float | None = typer.Option(
        None, min=0, max=14, help="The values are those of the protonation states at this pH, as in a campaign."
    ),
    skip_bad: bool = typer.Option(False, "--skip-bad", help="Leave bad rows out; default: import nothing."),
    revise: str | None = typer.Option(None, metavar="WHY", help="Supersede values that changed, and why."),
    replicate: bool = typer.Option(False, help="Keep values that differ from those of other files beside them."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Check the file; write nothing."),
    keep: list[str] | None = typer.Option(None, help="A column that stays with the molecules as a remark. Repeat it."),
    campaign: str | None = typer.Option(
        None,
        "--campaign",
        "-c",
        help="With --rung: the campaign. Without: the file of a campaign that is not in the ledger yet and derives a "
        "property.",
    ),
    rung: str | None = typer.Option(
        None, metavar="LABEL", help="Old values are answers of this rung of a campaign, which people do."
    ),
    ledger: options.Ledger = None,
    as_who: options.Who = None,
    json: options.Json = False,
) -> None:
    """Take measured or computed values from a table as evidence, all of it or nothing. `< 0.1` is a censored value.

    With --campaign and --rung they are old values of the same measurement: they become answers of that rung, so that
    the campaign learns from them. They cost nothing.
    """
    if rung is not None or (campaign is not None and not method):
        others: dict[str, object] = {
            "--method": method,
            "--basis": basis,
            "--phase": phase,
            "--cost": cost,
            "--keep": keep,
            "--parent": parent,
            "--skip-bad": skip_bad,
            "--replicate": replicate,
            "--dry-run": dry_run,
            "--ph": ph is not None,
            "--subject": subject != MOLECULE_KIND,
        }
        campaign_name, rung_label = _rung_of_old_values(campaign, rung, others)
        _load_old_values(
            campaign_name,
            rung_label,
            file,
            columns=value_columns(value, uncertainty or []),
            structures_column=column or "smiles",
            why=revise or "",
            ledger=ledger,
            who=as_who or user(),
            json=json,
        )
        return
    if not method:
        raise UsageError("say how the values were obtained: --method experiment, or --campaign and --rung")
    from sciagent.campaign.people.import_values import import_file
    from sciagent.domain.properties_and_levels import Level

    opened = open_ledger(ledger, create=True)
    _know_properties(opened, campaign)
    report = import_file(
        opened,
        file,
        columns=value_columns(value, uncertainty or []),
        level=Level(method, basis, phase),
        subject=subject,
        structure=column,
        standardise="parent" if parent else "refuse",
        ph=ph,
        who=as_who or user(),
        skip_bad=skip_bad,
        revise=revise,
        replicate=replicate,
        dry_run=dry_run,
        keep=keep,
        costs=pairs("--cost", cost or [], "RESOURCE=NUMBER or RESOURCE=COLUMN"),
    )
    for line in report.lines(MAX_FAULTS):
        say(line)
    done = "would be recorded" if dry_run else f"{report.recorded} recorded, {report.known} known already"
    note = f"{report.rows} rows: {done}, {len(report.faults)} left out, {report.empty} empty cells"
    put_answer(vars(report), json, NO_PARTS, note)


def _know_properties(ledger: Any, campaign: str | None) -> None:
    """Registers the properties of the ledger's campaigns, and those that a campaign's file derives.

    campaign: the file, or the name of a campaign in the ledger. Raises UnknownNameError for another name, and SpecError
    for a faulty file.
    """
    from sciagent.campaign.file.campaign_spec import load_spec
    from sciagent.store.campaign_state import campaigns

    with ledger.read() as connection:
        campaigns.register_properties(connection)
        if campaign is not None and not Path(campaign).is_file():
            campaigns.get(connection, campaign)
    if campaign is not None and Path(campaign).is_file():
        load_spec(Path(campaign))


def _rung_of_old_values(campaign: str | None, rung: str | None, others: Mapping[str, object]) -> tuple[str, str]:
    """Returns the campaign and the rung whose answers are loaded.

    others: the values of options that do not go with --campaign and --rung. Raises UsageError if one is given, or if
    the campaign or the rung is missing.
    """
    if campaign is None or rung is None:
        raise UsageError("--campaign and --rung belong together: old values are answers of a rung of a campaign")
    given = [option for option, value in others.items() if value]
    if given:
        raise UsageError(f"{given[0]} does not go with --rung: the rung of the campaign says what was measured")
    return campaign, rung


def _load_old_values(
    campaign: str,
    rung: str,
    file: Path,
    columns: list[Any],
    structures_column: str,
    why: str,
    ledger: str | None,
    who: str,
    json: bool,
) -> None:
    """Takes old values as answers of a rung that people do. why: reason for values that differ from known values."""
    from sciagent.campaign.core.create_and_open import open_campaign_for_people
    from sciagent.lab import historical_values

    built = open_campaign_for_people(open_ledger(ledger), campaign)
    old = historical_values.read_old(built, rung, file, columns, structures_column)
    loaded = historical_values.load(built, old, who, why)
    for fault in loaded.faults[:MAX_FAULTS]:
        say(f"left out: {fault}")
    counts = f"{loaded.recorded} recorded, {loaded.known} known already, {len(loaded.faults)} left out"
    note = f"{loaded.rows} rows: {counts}"
    put_answer(vars(loaded), json, [Line(note)], *next_step(built.row.hosted, campaign))


def _unknown_property(name: str) -> str:
    """Returns the message for a property that neither a package nor the ledger defines."""
    from sciagent.domain.properties_and_levels import properties

    return (
        f'unknown property "{name}"{did_you_mean(name, properties())}. If the formula of a campaign derives it, name '
        "the campaign's file: --campaign FILE.yaml. If a function of yours measures it, run the function's campaign or "
        "sciagent.calc first, so that the ledger knows the property"
    )


def value_columns(values: list[str], uncertainties: list[str]) -> list[Any]:
    """Returns the columns that --value and --uncertainty name. Raises UsageError."""
    from sciagent.domain.display_units import Column
    from sciagent.domain.properties_and_levels import properties

    uncertainty_by_column = pairs("--uncertainty", uncertainties, "COLUMN=NUMBER or COLUMN=COLUMN")
    columns = []
    for text in values:
        match = _VALUE.fullmatch(text)
        if match is None:
            raise UsageError(f"--value \"{text}\": write COLUMN=PROPERTY[UNIT], such as 'gap=homo_lumo_gap[eV]'")
        name = match["column"]
        if match["property"] not in properties():
            raise UsageError(_unknown_property(match["property"]))
        prop = properties()[match["property"]]
        if match["unit"] is None and prop.unit != "1":
            way = f"say the unit of {prop.name}, or the column that has it: {text}[{prop.unit}]"
            raise UsageError(f"--value {text}: {way}; it takes: {', '.join(prop.units)}")
        uncertainty = uncertainty_by_column.pop(name, None)
        columns.append(Column(name, match["property"], match["unit"], uncertainty))
    if uncertainty_by_column:
        raise UsageError(f"--uncertainty names {', '.join(uncertainty_by_column)}, which no --value has")
    return columns
