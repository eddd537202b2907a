"""Draws molecules as SVG with colours from CSS, so that a drawing suits light, dark and print."""

from __future__ import annotations

import re
from typing import Any

from sciagent.chemistry.molecule import Molecule

_COLOURS = ("atom", "atom-n", "atom-o", "atom-x", "atom-s", "atom-p", "atom-b")
_ELEMENTS = {-1: 0, 0: 0, 6: 0, 7: 1, 8: 2, 9: 3, 17: 3, 35: 3, 53: 3, 16: 4, 15: 5, 5: 6, 14: 6}
"""Position in _COLOURS by atomic number; -1 is RDKit's number for all other elements."""


def drawing(molecule: Molecule, width: int = 260, height: int = 190) -> str:
    """Returns an SVG without prolog, scaled by its viewBox; colours are CSS variables (`--atom`, `--atom-n`, …).

    width, height: pixels of the viewBox. Only hydrogens on heteroatoms are shown.
    """
    from rdkit import Chem
    from rdkit.Chem import rdDepictor
    from rdkit.Chem.Draw import rdMolDraw2D

    mol = rdMolDraw2D.PrepareMolForDrawing(Chem.RemoveHs(molecule.mol), kekulize=True)
    rdDepictor.StraightenDepiction(mol)
    drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
    options: Any = drawer.drawOptions()
    options.clearBackground = False
    # RDKit draws the n-th colour as #0n0n0n; the CSS variable then replaces it
    options.setAtomPalette({number: ((place + 1) / 255,) * 3 for number, place in _ELEMENTS.items()})
    options.fixedBondLength = 26
    options.bondLineWidth = 1.6
    options.minFontSize = 11
    options.padding = 0.06
    drawer.DrawMolecule(mol)
    drawer.FinishDrawing()
    return _themed(drawer.GetDrawingText(), width, height)


def _themed(svg: str, width: int, height: int) -> str:
    body = svg[svg.index(">", svg.index("<svg")) + 1 :]
    inner = re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL).removesuffix("</svg>\n").strip()
    colours = {f"#{place:02x}{place:02x}{place:02x}": name for place, name in enumerate(_COLOURS, start=1)}
    inner = re.sub(r"#[0-9A-Fa-f]{6}", lambda m: f"var(--{colours.get(m.group().lower(), 'atom')})", _merged(inner))
    head = f'<svg class="molecule" viewBox="0 0 {width} {height}" role="img" aria-hidden="true" focusable="false">'
    return f"{head}{inner}</svg>"


_PATH = re.compile(
    r"<path\b[^>]*?\bd='(?P<line>[^']*)'[^>]*?(?:style='(?P<style>[^']*)'|fill='(?P<fill>[^']*)')[^>]*/>"
)


def _merged(inner: str) -> str:
    """Returns the body of a drawing with one path for each style, which is a sixth as long; other elements are kept."""
    lines: dict[str, list[str]] = {}
    for path in _PATH.finditer(inner):
        given = dict(part.split(":", 1) for part in (path["style"] or f"fill:{path['fill']}").split(";") if part)
        kept = {name: given[name] for name in ("fill", "stroke", "stroke-width") if name in given}
        style = ";".join(f"{name}:{value}" for name, value in kept.items())
        lines.setdefault(style, []).append(re.sub(r"\s*([A-Z])\s*", r"\1", path["line"].strip()))
    rest = "".join(_PATH.sub("", inner).split("\n")).strip()
    return "".join(f'<path style="{style}" d="{"".join(parts)}"/>' for style, parts in lines.items()) + rest
