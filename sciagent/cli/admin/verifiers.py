"""`sciagent verifiers [NAME]`: what can stand on a ladder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from sciagent.cli.shared.common import Exit, JsonOption, put_json, say

HEAD = -1  # depth of a verifier's own heading
SAMPLES = {"benzene": "c1ccccc1", "aspirin": "CC(=O)Oc1ccccc1C(=O)O"}


def register(app: typer.Typer) -> None:
    app.command("verifiers", epilog="Example: sciagent verifiers xtb.singlepoint")(verifiers)


def verifiers(
    name: Annotated[str | None, typer.Argument(help="One verifier, with all its settings; default: all.")] = None,
    json: JsonOption = False,
) -> None:
    """What can stand on a ladder: what each verifier measures, at which level, its cost, settings and priors.

    One that does not load is shown with its error; exit code 1 if it is the one that was asked for.
    """
    from sciagent.chemistry.molecule import parse_molecule
    from sciagent.verification.catalogue import catalogue, entry

    samples = {label: parse_molecule(text) for label, text in SAMPLES.items()}
    found = catalogue(samples) if name is None else [entry(name, samples)]
    if json:
        put_json(found if name is None else found[0])
    else:
        from rich.console import Console

        console = Console()
        for text, depth in _overview(found) if name is None else _lines(found[0]):
            _print(console, text, depth)
        if name is None:
            console.print(f"core s: declared for {list(SAMPLES)[-1]}. All of one: sciagent verifiers NAME", style="dim")
    broken = [one for one in found if one["error"]]
    if broken and not json:
        for one in broken:
            say(f"{one['name']} does not load ({one['package']}): {one['error']}")
    if name is not None and broken:
        raise typer.Exit(Exit.FAILED)


def _overview(found: list[dict[str, Any]]) -> Iterator[tuple[str, int]]:
    """By tier; of each what it measures, at which level, for what."""
    tier = None
    for one in found:
        if one["error"]:
            continue
        if one["tier"] != tier:
            tier = one["tier"]
            yield tier.replace("_", " "), 0
        levels = ", ".join(dict.fromkeys(m["level"].split("//")[0] for m in one["measures"]))
        cost = next((f", {_amount(c['core_seconds'])} core s" for c in one["cost"][-1:] if "core_seconds" in c), "")
        yield f"{one['name']}" + (f" at {levels}" if levels else "") + cost, HEAD
        names = ", ".join(m["property"] for m in one["measures"])
        yield names or f"what it measures depends on its settings; needed: {', '.join(one['needs'])}", 2


def _lines(one: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    yield f"{one['name']}" + (f" {one['version']}, {one['tier'].replace('_', ' ')}" if not one["error"] else ""), 0
    if one["error"]:
        return
    for paragraph in one["about"].split("\n\n"):
        yield " ".join(paragraph.split()), 1
    yield f"from {one['package']}", 1
    same = len({m["level"] for m in one["measures"]}) == 1
    yield "Measures" + (f", at {one['measures'][0]['level']}" if same else ""), 0
    if one["needs"]:
        yield f"what its settings say; needed: {', '.join(one['needs'])}", 1
    for m in one["measures"]:
        unit = "" if m["unit"] == "1" else f" [{m['unit']}]"
        at = "" if same else f" at {m['level']}"
        yield f"{m['property']}{unit}{at}: {m['description']}", 1
    yield "Costs, as declared", 0
    for c in one["cost"]:
        amounts = ", ".join(
            f"{_amount(v)} {k.replace('_', ' ')}" for k, v in c.items() if k not in ("candidate", "atoms")
        )
        yield f"{c['candidate']} ({c['atoms']} atoms): {amounts}", 1
    yield "Settings", 0
    if one["settings_about"]:
        for paragraph in one["settings_about"].split("\n\n"):
            yield " ".join(paragraph.split()), 1
    for s in one["settings"]:
        default = "required" if s["required"] else f"default {_show(s['default'])}"
        head = f"{s['name']}: {s['takes']}" + ("" if s["takes"] == "settings" else f"; {default}")
        yield head, 1
        if s["about"]:
            yield " ".join(s["about"].split()), 2
    if not one["settings"]:
        yield "none", 1
    yield "Expected to tell, before any data", 0
    for p in one["priors"]:
        spread = "" if p["residual"] is None else f", residual {p['residual']:g}"
        yield f"{p['property']} at {p['level']}: Spearman {p['spearman']:g}{spread} (n = {p['n']}); {p['source']}", 1
    if not one["priors"]:
        yield "nothing is declared", 1


def _amount(value: float) -> str:
    """Two digits; a declared cost is no better known."""
    return f"{value:.2g}" if value < 100 else f"{float(f'{value:.2g}'):.0f}"


def _show(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(str(x) for x in value) + "]"
    return str(value)


def _print(console: Any, text: str, depth: int) -> None:
    from rich.padding import Padding
    from rich.text import Text

    made = Text(text, style="bold" if depth in (0, HEAD) else "", overflow="fold")
    console.print(Padding(made, (0, 0, 0, 2 if depth == HEAD else 2 * depth), expand=False), highlight=False)
