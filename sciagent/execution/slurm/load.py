"""Reads a site profile. All mistakes are reported together, one per line: `file:line:col: path: what is wrong`."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from sciagent.errors import SpecError
from sciagent.execution.slurm.site import SiteProfile
from sciagent.yaml.messages import explain, is_echo, report
from sciagent.yaml.positions import MAX_BYTES, decode, read


def load_site(path: Path) -> SiteProfile:
    """Read the profile in a YAML file. Raises SpecError."""
    try:
        if path.exists() and not path.is_file():
            raise SpecError(f"{path}:1:1: not a regular file")
        with path.open("rb") as stream:
            text, bad = decode(stream.read(MAX_BYTES + 1))
    except OSError as error:
        raise SpecError(f"{path}:1:1: cannot be read: {error.strerror or error}") from None
    if bad is not None:
        raise SpecError(report(str(path), [bad]))
    return parse_site(text, str(path))


def parse_site(text: str, name: str = "site.yaml") -> SiteProfile:
    """Read the profile in a YAML text. name: the file name used in messages. Raises SpecError."""
    document = read(text, "a site profile", "site: name")
    faults = list(document.faults)
    if isinstance(document.data, dict):
        try:
            site = SiteProfile.model_validate(document.data)
        except ValidationError as error:
            mistakes = [
                explain(mistake, document, SiteProfile)
                for mistake in error.errors(include_url=False)
                if not is_echo(mistake)
            ]
            faults += [mistake for mistake in mistakes if not document.broken(mistake.loc)]
        else:
            if not faults:
                return site
    raise SpecError(report(name, faults))
