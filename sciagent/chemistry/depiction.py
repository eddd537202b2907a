"""A molecule as a drawing whose colours the page decides, so that one drawing serves light, dark and print."""

from __future__ import annotations

import re
from typing import Any

from sciagent.chemistry.molecule import Molecule

# RDKit draws in these; the page's style sheet has the real ones
_SENTINELS = {0: 0x010101, 6: 0x010101, 7: 0x020202, 8: 0x030303, 9: 0x040404, 17: 0x040404, 35: 0x040404, 53: 0x040404,
              16: 0x050505, 15: 0x060606, 5: 0x070707, 14: 0x070707}  # fmt: skip
_NAMES = {
    "#010101": "var(--atom)",
    "#020202": "var(--atom-n)",
    "#030303": "var(--atom-o)",
    "#040404": "var(--atom-x)",
    "#050505": "var(--atom-s)",
    "#060606": "var(--atom-p)",
    "#070707": "var(--atom-b)",
    "#000000": "var(--atom)",
}


def drawing(molecule: Molecule, width: int = 260, height: int = 190) -> str:
    """SVG without prolog, size by its viewBox; colours are CSS variables (`--atom`, `--atom-n`, …).

    width, height: pixels of the viewBox. Hydrogens on heteroatoms are written, others left out.
    """
    from rdkit.Chem import Draw, rdDepictor
    from rdkit.Chem.Draw import rdMolDraw2D

    mol = Draw.rdMolDraw2D.PrepareMolForDrawing(_plain(molecule), kekulize=True)
    rdDepictor.StraightenDepiction(mol)
    made = rdMolDraw2D.MolDraw2DSVG(width, height)
    options: Any = made.drawOptions()
    options.clearBackground = False
    options.setAtomPalette({number: _rgb(code) for number, code in _SENTINELS.items()} | {-1: _rgb(0x010101)})
    options.fixedBondLength = 26
    options.bondLineWidth = 1.6
    options.minFontSize = 11
    options.padding = 0.06
    made.DrawMolecule(mol)
    made.FinishDrawing()
    return _themed(made.GetDrawingText(), width, height)


def _plain(molecule: Molecule) -> Any:
    """The graph alone: no atom of it carries a label that somebody else wrote."""
    from rdkit import Chem

    mol = Chem.RemoveHs(Chem.Mol(molecule.mol))
    for atom in mol.GetAtoms():
        for name in list(atom.GetPropsAsDict(False, False)):
            atom.ClearProp(name)
        atom.SetAtomMapNum(0)
    return mol


def _rgb(code: int) -> tuple[float, float, float]:
    return (code >> 16 & 255) / 255, (code >> 8 & 255) / 255, (code & 255) / 255


def _themed(svg: str, width: int, height: int) -> str:
    body = svg[svg.index("<svg") :]
    inner = re.sub(r"^<svg[^>]*>", "", body, count=1)
    inner = re.sub(r"<!--.*?-->", "", inner, flags=re.DOTALL).strip()
    inner = re.sub(r"#[0-9A-Fa-f]{6}", lambda m: _NAMES.get(m.group().lower(), "var(--atom)"), inner)
    head = f'<svg class="molecule" viewBox="0 0 {width} {height}" role="img" aria-hidden="true" focusable="false">'
    return head + inner
