"""Builds HTML for notebooks: boxes with a style sheet for light and dark themes, headings, paragraphs, tables, and
drawn structures. All texts are escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from html import escape
from importlib.resources import files

from sciagent.api.terminal_tables_and_signals import Records, cell_text, columns_of, is_number
from sciagent.domain.answers.candidate_and_value_answers import StructureText
from sciagent.domain.candidate_and_its_names_in_files import MOLECULE_KIND
from sciagent.domain.safe_text_and_durations import Paragraph

DRAWN_COLUMNS = ("smiles", "structure", "candidate", "text")  # columns of structures

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
.sciagent svg.molecule{width:130px;height:95px;display:block}
.sciagent p{margin:2px 0}
</style>"""


def box(*parts: str) -> str:
    """Returns the parts with the style sheet in front."""
    return f'{STYLE}<div class="sciagent">{"".join(parts)}</div>'


def chart(svg: str) -> str:
    """Returns a chart of the report with its colours, for notebooks with a light or a dark theme."""
    return _chart_style() + svg


@lru_cache(maxsize=1)
def _chart_style() -> str:
    """Returns a style sheet with the report's colours."""
    colours = files("sciagent.report").joinpath("static", "colours.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", colours, flags=re.DOTALL)
    dark_boxes = "body[data-jp-theme-light=false] .sciagent,.vscode-dark .sciagent,html[theme=dark] .sciagent"
    size = ".sciagent svg.chart{width:100%;max-width:560px;height:auto;display:block}"
    return f"<style>.sciagent{{{light}}}{dark_boxes}{{{dark}}}{size}</style>"


def heading(text: str) -> str:
    return f"<h4>{escape(text)}</h4>" if text else ""


def paragraph(text: str, soft: bool = False) -> str:
    return f'<p class="soft">{escape(text)}</p>' if soft else f"<p>{escape(text)}</p>"


def paragraphs(lines: Iterable[Paragraph]) -> str:
    """Returns indented paragraphs; a paragraph of depth 0 is a heading."""
    parts = []
    for line in lines:
        if line.depth:
            parts.append(f"<p style='margin-left:{line.depth}em'>{escape(line.text)}</p>")
        else:
            parts.append(heading(line.text))
    return "".join(parts)


def table(records: Records, title: str = "") -> str:
    """Returns a table of records; the first column of structures is also drawn."""
    if not records:
        return box(heading(title), paragraph("no rows", soft=True))
    names = columns_of(records)
    drawn_columns = [name for name in DRAWN_COLUMNS if name in names][:1]
    attributes = {name: ' class="n"' if is_number(records, name) else "" for name in names}
    headings = ["<th></th>" for _ in drawn_columns]
    headings += [f"<th{attribute}>{escape(name)}</th>" for name, attribute in attributes.items()]
    rows = []
    for record in records:
        cells = [f"<td>{structure_of(record.get(name))}</td>" for name in drawn_columns]
        cells += [f"<td{attribute}>{_cell(record.get(name))}</td>" for name, attribute in attributes.items()]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head = f"<thead><tr>{''.join(headings)}</tr></thead>"
    body = f"<table>{head}<tbody>{''.join(rows)}</tbody></table>"
    return box(heading(title), body)


def _cell(value: object) -> str:
    text = escape(cell_text(value))
    return f'<span class="hit">{text}</span>' if value == "hit" else text


def structure(kind: str, notation: str) -> str:
    """Returns a candidate as SVG; an empty text if it cannot be drawn."""
    from sciagent.chemistry.subjects.registry_and_candidate_dispatch import drawn

    return drawn(kind, notation, width=170, height=125)


def structure_of(shown: object) -> str:
    """Returns the drawing of an answer or a cell that knows its structure; any other cell is tried as SMILES.

    Returns an empty text if it cannot be drawn.
    """
    kind = getattr(shown, "kind", MOLECULE_KIND)
    text = getattr(shown, "text", None) or str(shown or "")
    notation = getattr(shown, "drawn_from", "") or text
    return structure(kind, notation)


def cell(shown: StructureText) -> str | StructureText:
    """Returns the cell of a structure: a molecule's SMILES; for other subjects `shown`, which knows how it is drawn."""
    return shown.text if shown.kind == MOLECULE_KIND else shown
