"""How values, objectives, verdicts and costs are written in a report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sciagent.domain.cost import RESOURCE_UNITS
from sciagent.domain.evidence import Measured
from sciagent.domain.quantities import Censoring, show

_SIGNS = {Censoring.NONE: "", Censoring.BELOW: "< ", Censoring.ABOVE: "> "}
_THIN = "\N{NARROW NO-BREAK SPACE}"
MAX_SETTING = 400  # characters of one setting that are shown
MISSED = {"below_window", "above_window", "not_measured"}


def value(m: Measured, unit: bool = True) -> str:
    """`4.12 ± 0.05 eV`; `± ?` where the uncertainty is unknown; no `±` where it is 0, that is, exact by definition."""
    q = m.quantity
    text = _SIGNS[q.censoring] + show(q.value, q.uncertainty, unit_sign(q.unit) if unit else "1")
    if q.uncertainty is None:
        text += " (± ?)"
    return text


def words(name: str) -> str:
    """`homo_lumo_gap` becomes `HOMO-LUMO gap`; other names get spaces for underscores."""
    return _NAMES.get(name, name.replace("_", " "))


_NAMES = {
    "homo": "HOMO",
    "lumo": "LUMO",
    "homo_lumo_gap": "HOMO-LUMO gap",
    "logp": "logP",
    "tpsa": "TPSA",
    "qed": "QED",
    "sa_score": "SA score",
    "s1_energy": "S1 energy",
    "dipole": "dipole moment",
    "llm_tokens": "LLM tokens",
    "gpu_seconds": "GPU seconds",
}


def unit_sign(unit: str) -> str:
    """`angstrom**2` becomes `Å²`; other units stay as they are."""
    return unit.replace("angstrom", "Å").replace("**2", "²").replace("**3", "³").replace("*", "·")


def with_unit(name: str, unit: str) -> str:
    return words(name) if unit == "1" else f"{words(name)} / {unit_sign(unit)}"


def window(edges: Any, name: str, unit: str) -> str:
    """`4 ≤ HOMO-LUMO gap ≤ 4.6 eV`; empty without edges."""
    low, high = edges or (None, None)
    if low is None and high is None:
        return ""
    text = f"{'' if low is None else f'{low:g} ≤ '}{words(name)}{'' if high is None else f' ≤ {high:g}'}"
    return text if unit == "1" else f"{text} {unit_sign(unit)}"


def wish(objective: Mapping[str, Any]) -> str:
    """A sentence on what an objective asks for."""
    name, unit, ramp = objective["property"], objective["unit"], objective.get("ramp")
    tail = "" if unit == "1" else f" {unit_sign(unit)}"
    parts = []
    if ramp:
        parts.append(f"{objective['direction']} {words(name)}, from {ramp[0]:g} (worst) to {ramp[1]:g}{tail} (best)")
    if limits := window(objective.get("accept"), name, unit):
        parts.append(limits)
    return "; ".join(parts) or f"{objective['direction']} {words(name)}"


def duration(seconds: float, prefix: str = "") -> str:
    """`1.5 minutes`: the time in the largest unit in which it is at least 1."""
    factor, unit = (3600, "hours") if seconds >= 3600 else (60, "minutes") if seconds >= 60 else (1, "seconds")
    return f"{seconds / factor:.3g} {prefix}{unit}"


def cost(core_seconds: float) -> str:
    """`1.5 core-minutes`."""
    return duration(core_seconds, "core-")


def change(path: str, old: Any, new: Any) -> str:
    """`budget.rungs.dft: 10 → 20`: what differs between two values of a spec."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        return "; ".join(change(f"{path}.{name}", old.get(name), new.get(name)) for name in names)
    return f"{path}: {setting(old)} → {setting(new)}"


def setting(value: Any) -> str:
    """A value of a spec or an event: a text as it is, an object as `name: value, …`, anything else as JSON; cut."""
    if isinstance(value, dict):
        text = ", ".join(f"{words(str(name))}: {setting(part)}" for name, part in value.items())
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_SETTING else text[:MAX_SETTING] + "…"


def number(value: float) -> str:
    """Three significant digits, or all before the decimal point: `0.123`, `12.3`, `12 345`."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{round(value):,}".replace(",", _THIN)


def amounts(costs: Mapping[str, float], without: str = "") -> str:
    """The amount spent of each resource but one: `12 345 LLM tokens, 0.5 money (EUR)`."""
    units = {name: RESOURCE_UNITS.get(name, "1") for name in costs}
    return ", ".join(
        f"{number(amount)} {words(name)}" + ("" if units[name] in ("1", "s") else f" ({units[name]})")
        for name, amount in sorted(costs.items())
        if name != without
    )


def many(n: int, singular: str, plural: str | None = None) -> str:
    """`1 hit`, `2 hits`, `12 345 hits`."""
    digits = f"{n:,}".replace(",", _THIN)
    return f"{digits} {singular if n == 1 else plural or singular + 's'}"
