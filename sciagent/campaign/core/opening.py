"""The spec of a campaign as the ledger has it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from sciagent.campaign.file.campaign_spec import CampaignSpec
from sciagent.campaign.spec.load import parse_spec
from sciagent.errors import UsageError
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.verification.registry import Defined, defined, is_function, verifier_names


def as_begun(spec: CampaignSpec, source: str, row: CampaignRow) -> CampaignSpec:
    """Returns the spec with the defaults that its campaign began with. source: the text of the spec."""
    if spec.identity_hash == row.identity_hash:
        return spec
    before = spec if source == row.source else stored_spec(row, candidates=False)
    return spec.with_defaults_of(row.spec, before)


def stored_spec(row: CampaignRow, candidates: bool = True) -> CampaignSpec:
    """Parses the stored spec. Raises UsageError if a rung is a function that is not defined in this process.

    candidates: whether the proposer's files must exist.
    """
    known = verifier_names()
    gone = [r["verifier"] for r in row.spec["ladder"] if is_function(r["settings"]) and r["verifier"] not in known]
    if gone:
        raise UsageError(
            f'campaign "{row.name}" has the rung {gone[0]}, a function of a notebook or a script, which this process '
            "does not have: go on where the function is defined, with run(); status, best, explain, report and export "
            "work here"
        )
    name, base = f"{row.name} (as stored)", Path(row.base)
    if candidates:
        return parse_spec(row.source, name, base)
    return _for_people(row.source, name, base, known, tuple(defined().values()))


@lru_cache(maxsize=32)
def _for_people(
    source: str, name: str, base: Path, verifiers: tuple[str, ...], functions: tuple[Defined, ...]
) -> CampaignSpec:
    """Parses a stored spec once: a server needs it for each page. verifiers, functions: those that it may name."""
    return parse_spec(source, name, base, candidates=False)
