"""HTML of what notebooks show: one style sheet for light and dark, structures drawn, everything escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from html import escape
from typing import Any

STYLE = """<style>
.sciagent{--atom:#222;--atom-n:#2b50c7;--atom-o:#c2321f;--atom-x:#2a7d34;--atom-s:#8a6a00;--atom-p:#a8560c;
--atom-b:#9a4f63;--line:#d5d9df;--soft:#667;--good:#1b7a3d;font-size:13px;line-height:1.4;max-width:100%;
overflow-x:auto}
body[data-jp-theme-light=false] .sciagent,.vscode-dark .sciagent,html[theme=dark] .sciagent{--atom:#e2e4e8;
--atom-n:#8ea8ff;--atom-o:#ff8a78;--atom-x:#79d486;--atom-s:#e0c050;--atom-p:#f0a060;--atom-b:#e09aae;
--line:#454a52;--soft:#a5abb5;--good:#6ed194}
.sciagent table{border-collapse:collapse;margin:4px 0}
.sciagent th,.sciagent td{padding:4px 12px 4px 0;text-align:left;vertical-align:middle;border:0;
border-bottom:1px solid var(--line);background:none}
.sciagent th{color:var(--soft);font-weight:600}
.sciagent td.n,.sciagent th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.sciagent h4{margin:6px 0 4px;font-size:14px}
.sciagent .soft{color:var(--soft)}
.sciagent .hit{color:var(--good);font-weight:600}
.sciagent code{background:none;padding:0;overflow-wrap:anywhere}
.sciagent svg.molecule{width:130px;height:95px;display:block}
.sciagent ul{margin:2px 0 2px 18px;padding:0}
.sciagent p{margin:2px 0}
.sciagent summary{cursor:pointer}
</style>"""


def box(*parts: str) -> str:
    """The parts under one style sheet."""
    return f'{STYLE}<div class="sciagent">{"".join(parts)}</div>'


def heading(text: str) -> str:
    return f"<h4>{escape(text)}</h4>" if text else ""


def paragraph(text: str, soft: bool = False) -> str:
    return f'<p class="soft">{escape(text)}</p>' if soft else f"<p>{escape(text)}</p>"


def folded(lines: Sequence[str], what: str) -> str:
    """Lines of HTML; more than a few are folded under how many there are."""
    body = "<br>".join(lines)
    return body if len(lines) <= 6 else f"<details><summary>{len(lines)} {escape(what)}</summary>{body}</details>"


def note(text: str) -> str:
    """A line below a table."""
    return box(paragraph(text, soft=True))


def rows_html(heads: Sequence[tuple[str, bool]], rows: Iterable[Sequence[str]]) -> str:
    """A table. heads: (text, whether the column holds numbers). rows: cells that are HTML already."""
    kinds = [' class="n"' if number else "" for _, number in heads]
    top = "".join(f"<th{kind}>{escape(text)}</th>" for (text, _), kind in zip(heads, kinds, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def table(records: Sequence[Mapping[str, Any]], title: str = "") -> str:
    """A plain table of records; a column `smiles` or `text` is drawn as well."""
    if not records:
        return box(heading(title), paragraph("no rows", soft=True))
    names = columns_of(records)
    drawn = next((name for name in ("smiles", "text") if name in names), "")
    heads = [("", False)] * bool(drawn) + [(name, _is_number(records, name)) for name in names]
    rows = [
        [structure(str(record.get(drawn) or ""))] * bool(drawn)
        + [escape(cell_text(record.get(name))) for name in names]
        for record in records
    ]
    return box(heading(title), rows_html(heads, rows))


def columns_of(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """All columns of the records, in order of their first appearance, without those that are empty everywhere."""
    names = dict.fromkeys(name for record in records for name in record)
    return [name for name in names if any(record.get(name) not in (None, "") for record in records)]


def cell_text(value: object) -> str:
    """A cell in words: four digits of a number, an empty text where nothing is known."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M")
    text = str(value)
    return f"{text[:12]}…" if len(text) == 64 and text.isalnum() else text


def _is_number(records: Sequence[Mapping[str, Any]], name: str) -> bool:
    held = [record.get(name) for record in records if record.get(name) is not None]
    return bool(held) and all(isinstance(one, int | float) and not isinstance(one, bool) for one in held)


@lru_cache(maxsize=2048)
def structure(smiles: str) -> str:
    """The molecule as SVG; empty for what cannot be drawn."""
    from sciagent.chemistry.depiction import drawing
    from sciagent.chemistry.molecule import parse_molecule
    from sciagent.errors import SciagentError

    try:
        return drawing(parse_molecule(smiles, standardise="parent"), 170, 125)
    except (SciagentError, ValueError, RuntimeError):
        return ""
