"""Which candidate a person means: SMILES, the beginning of a key, or an InChIKey."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.engine import Connection

from sciagent.chemistry.molecule import parse_molecule
from sciagent.errors import InvalidCandidateError, UsageError
from sciagent.store.campaign_state import standings
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.results import candidates

SHOWN = 12  # digits of a key in messages


@dataclass(frozen=True)
class Named:
    """A candidate in the ledger. id: of its row."""

    id: int
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.text} ({self.key[:SHOWN]})"


def resolve(connection: Connection, row: CampaignRow | None, text: str) -> Named:
    """The one candidate that `text` names, in the campaign if one is given. A SMILES is read as the campaign reads
    it, so any spelling of the molecule will do.

    Raises UsageError when there is none, with how to bring it in, or when several answer to the name.
    """
    said = text.strip()
    found, is_molecule = _matches(connection, row, said)
    if row is not None and found:
        members = standings.members(connection, row.id, [one.id for one in found])
        if not members:
            names = ", ".join(str(one) for one in found[:5])
            raise UsageError(
                f'"{said}" is known to the ledger as {names}, but is not in campaign "{row.name}"; bring it in with: '
                f"sciagent add '{found[0].text}' --campaign {row.name} --reason \"...\""
            )
        found = [one for one in found if one.id in members]
    if not found:
        raise UsageError(_unknown(said, row, is_molecule))
    if len(found) > 1:
        lines = "\n".join(f"  {one.key[:SHOWN]}  {one.text}" for one in found)
        raise UsageError(
            f'"{said}" names {len(found)} candidates; give more digits of the key, or the SMILES of one:\n{lines}'
        )
    return found[0]


def _matches(connection: Connection, row: CampaignRow | None, said: str) -> tuple[list[Named], bool]:
    """What answers to the name, and whether the text is a molecule."""
    standardise = "parent" if row is not None and row.spec.get("standardise") == "parent" else "refuse"
    molecule = None
    try:
        molecule = parse_molecule(said, standardise=standardise)  # type: ignore[arg-type]
    except InvalidCandidateError:
        pass
    if molecule is not None:
        ids = candidates.ids_of(connection, [molecule.key])
        if molecule.key in ids:
            return [Named(ids[molecule.key], molecule.key, molecule.text)], True
    found = [Named(one.id, one.key, one.text) for one in candidates.find(connection, said)]
    return found, molecule is not None


def _unknown(said: str, row: CampaignRow | None, is_molecule: bool) -> str:
    where = f'campaign "{row.name}"' if row is not None else "the ledger"
    if is_molecule:
        name = row.name if row is not None else "NAME"
        return f'"{said}" is not in {where}; bring it in with: sciagent add \'{said}\' --campaign {name} --reason "..."'
    if len(said) < 6 and all(c in "0123456789abcdef" for c in said):
        return f'"{said}" is too short for a key; give at least 6 digits, a SMILES, or an InChIKey'
    return (
        f'no candidate "{said}" in {where}; give a SMILES, at least 6 digits of its key (sciagent best --json shows '
        "keys), or its InChIKey"
    )
