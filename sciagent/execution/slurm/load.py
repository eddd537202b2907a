"""Reads a site profile. All mistakes are reported together, one per line: `file:line:col: path: what is wrong`."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from sciagent.errors import SpecError
from sciagent.execution.slurm.site import SiteProfile
from sciagent.yaml.files import text_of
from sciagent.yaml.mistakes import explain, is_echo, report
from sciagent.yaml.positions import MAX_FAULTS, read


def load_site(path: Path) -> SiteProfile:
    """Read the profile in a YAML file. Raises SpecError."""
    return parse_site(text_of(path), str(path))


def parse_site(text: str, name: str = "site.yaml") -> SiteProfile:
    """Read the profile in a YAML text. name: the file name used in messages. Raises SpecError."""
    document = read(text, "a site profile", "site: name")
    faults = list(document.faults)
    if isinstance(document.data, dict):
        try:
            site = SiteProfile.model_validate(document.data)
        except ValidationError as error:
            errors = error.errors(include_url=False)[:MAX_FAULTS]
            explained = [explain(mistake, document, SiteProfile) for mistake in errors if not is_echo(mistake)]
            faults += [fault for fault in explained if not document.broken(fault.loc)]
        else:
            if not faults:
                return site
    raise SpecError(report(name, faults))
