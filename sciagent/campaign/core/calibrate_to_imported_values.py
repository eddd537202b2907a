"""Fits rungs to imported values: the calibrations of a campaign. All values in the ledger count, of every campaign."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.campaign.file.campaign_spec import CampaignSpec
from sciagent.campaign.file.derived_properties_and_fits_to_measured import WantedCalibration, calibrations
from sciagent.campaign.file.rungs import RungSpec
from sciagent.domain.derived_properties import DerivedProperty, Part
from sciagent.domain.properties_and_levels import phases_agree, properties
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.domain.rung_calibration_on_measurements import FEWEST, Fit, FitKind, fitted
from sciagent.errors import UsageError, did_you_mean
from sciagent.store.results import pooled_replicates
from sciagent.store.views import progress_and_comparisons
from sciagent.store.views.property_value_pages import ImportedLevel, imported_levels
from sciagent.verification.function_verifiers import FUNCTION
from sciagent.verification.verifier_contract import ChargeClass
from sciagent.verification.verifier_registry import provider

# a text that needs no quotes in YAML
PLAIN = re.compile(r"(?!(?:on|off|yes|no|true|false|null|y|n)$)[A-Za-z][\w/-]*$", re.IGNORECASE)
LedgerFits = dict[int, dict[str, Fit]]
"""{position of the rung: fits by property}."""


def fits_of(connection: Connection, spec: CampaignSpec) -> LedgerFits:
    """Returns the fits that the spec asks for, from all molecules of the ledger that a rung and a file share.

    A fit that would not help is returned, too, but is not in use. Raises UsageError if they share too few molecules, or
    if a fit cannot be made.
    """
    fits: LedgerFits = {}
    for wanted in calibrations(spec.objectives, spec.ladder, spec.terminal_position):
        fit = _fit(connection, spec.ladder, wanted)
        fits.setdefault(wanted.position, {})[wanted.property] = fit
    return fits


def fit_lines(spec: CampaignSpec, fits: LedgerFits) -> Iterator[str]:
    """Yields a sentence on each fit, in the units of the spec."""
    units = spec.chosen_units()
    for position, by_property in fits.items():
        for name, fit in by_property.items():
            yield fit.sentence(spec.ladder[position].rung, units.get(name))


def _fit(connection: Connection, ladder: Sequence[RungSpec], wanted: WantedCalibration) -> Fit:
    """Returns one fit. Raises UsageError as `fits_of` does."""
    name = wanted.property
    rung = ladder[wanted.position]
    level, imported = _level(imported_levels(connection, name), rung, wanted)
    derived = next((prop for prop in rung.derived if prop.definition.name == name), None)
    if derived is None:
        computed_values = _values_of_rung(connection, rung, name, sorted(imported.values))
    else:
        computed_values = _derived_values(connection, ladder, derived, sorted(imported.values))
    computed = {}
    for id_, quantity in sorted(computed_values.items()):
        if quantity.censoring is Censoring.NONE:
            computed[id_] = quantity.value
    if len(computed) < FEWEST:
        n_imported = len(imported.values)
        shared = "1 candidate" if len(computed) == 1 else f"{len(computed)} candidates"
        if n_imported >= FEWEST:
            way_out = f"{n_imported} candidates have an imported value; compute the others with: "
            positions = [wanted.position] if derived is None else sorted(derived.rungs)
            way_out += "; and ".join(command(ladder[position], imported.files[0]) for position in positions)
        else:
            way_out = f"Import more measured values first; {n_imported} candidates have one"
        raise UsageError(
            f"calibrate: {rung.rung} and the imported values share {shared} with a {name}; a fit needs {FEWEST}. "
            f"{way_out}"
        )
    measured = [imported.values[id_] for id_ in computed]
    try:
        fit = fitted(name, FitKind(wanted.stated.kind), level, list(computed.values()), measured)
        fit = replace(fit, charges=_charges(connection, list(computed)))
        return replace(fit, is_used=True) if wanted.stated.force else fit
    except ValueError as error:
        raise UsageError(f"calibrate: {name} of {rung.rung}: {error}; use kind: offset, or no calibration") from None


def _charges(connection: Connection, ids: Sequence[int]) -> ChargeClass:
    """Returns the class of charge of candidates, as in `Fit.charges`."""
    classes = set(map(ChargeClass.of, progress_and_comparisons.charges(connection, ids).values()))
    return classes.pop() if len(classes) == 1 else ChargeClass.ANY


def _values_of_rung(connection: Connection, rung: RungSpec, name: str, ids: Sequence[int]) -> dict[int, Quantity]:
    """Returns the values of a property that a rung has measured, by candidate id, replicates pooled."""
    answers = pooled_replicates.values_of(connection, ids, rung.configured.computation)
    return {id_: values[name] for id_, values in answers.items() if values and name in values}


def _derived_values(
    connection: Connection, ladder: Sequence[RungSpec], derived: DerivedProperty, ids: Sequence[int]
) -> dict[int, Quantity]:
    """Returns the values of a derived property, by candidate id, from what the rungs of its parts have answered. No
    campaign need have recorded them."""
    parts: dict[int, dict[Part, Quantity]] = {}
    for position, name in derived.parts.values():
        for id_, quantity in _values_of_rung(connection, ladder[position], name, ids).items():
            parts.setdefault(id_, {})[position, name] = quantity
    values = {}
    for id_, of_candidate in parts.items():
        measured = derived.measured(of_candidate)
        if measured is not None:
            values[id_] = measured.quantity
    return values


def _level(levels: Mapping[str, ImportedLevel], rung: RungSpec, wanted: WantedCalibration) -> tuple[str, ImportedLevel]:
    """Returns the level of the measured values, and the values. Raises UsageError unless one level fits."""
    name = wanted.property
    stated = wanted.stated.level
    if not levels:
        raise UsageError(
            f"calibrate: the ledger has no imported values of {name}; import at least {FEWEST} with: sciagent import "
            f"FILE.csv --value 'COLUMN={name}[{properties()[name].unit}]' --method experiment"
        )
    phase = next(measure.level.phase for measure in rung.measures if measure.property.name == name)
    agreeing = [label for label, imported in levels.items() if phases_agree(imported.phase, phase)]
    if not agreeing or (stated in levels and stated not in agreeing):
        label = stated or next(iter(levels))
        raise UsageError(
            f'calibrate: {rung.rung} computes {name} in {phase}, and "{label}" was measured in {levels[label].phase}; '
            f"a fit needs values of one phase"
        )
    first_level = agreeing[0]
    if stated is None and len(agreeing) > 1:
        raise UsageError(
            f'calibrate: {name} was imported at {len(agreeing)} levels; name one, as in level: "{first_level}"; '
            f"known: {', '.join(agreeing)}"
        )
    chosen = first_level if stated is None else stated
    if chosen not in levels:
        hint = did_you_mean(chosen, list(levels))
        raise UsageError(f'calibrate: no {name} was imported at level "{chosen}"{hint}; known: {", ".join(levels)}')
    return chosen, levels[chosen]


def command(rung: RungSpec, file: str) -> str:
    """Returns the command that computes a rung's values for the molecules of a file: one of the shell, or of Python for
    a verifier that a function defines, since only the process with the function can run it."""
    if provider(rung.verifier).startswith(FUNCTION):
        settings = f", settings={dict(rung.settings)!r}" if rung.settings else ""
        return f"sciagent.calc({rung.verifier!r}, file={file!r}{settings})"
    words = ["sciagent", "calc", rung.verifier]
    for key, value in _flat(rung.settings):
        words += ["--set", shlex.quote(f"{key}={value}")]
    return " ".join([*words, "--file", shlex.quote(file)])


def _flat(settings: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yields settings as texts that `sciagent calc --set` takes."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{key}.")
        else:
            is_plain_text = isinstance(value, str) and PLAIN.match(value)
            yield f"{path}{key}", value if is_plain_text else json.dumps(value)
