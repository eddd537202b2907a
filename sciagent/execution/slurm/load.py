"""Reads a site profile. All mistakes are reported together, one per line: `file:line:col: path: what is wrong`."""

from __future__ import annotations

from pathlib import Path

from sciagent.execution.slurm.site import SiteProfile
from sciagent.yaml.document import read, text_of
from sciagent.yaml.validation import validated


def load_site(path: Path) -> SiteProfile:
    """Read the profile in a YAML file. Raises SpecError."""
    return parse_site(text_of(path), str(path))


def parse_site(text: str, name: str = "site.yaml") -> SiteProfile:
    """Read the profile in a YAML text. name: the file name used in messages. Raises SpecError."""
    return validated(read(text, "a site profile", "site: name"), name, SiteProfile)
