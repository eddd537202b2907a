"""Where candidates come from and what routes them: proposers and schedulers, each by its `kind`."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from sciagent.campaign.faults import fault
from sciagent.campaign.spec_goals import Count, Part

FORMATS = (".csv", ".smi", ".sdf")
CHUNK = 1 << 20


def file_hash(path: Path) -> str:
    """SHA-256 of a file, read in pieces. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def check_file(value: str, info: ValidationInfo) -> str:
    """The name as given. Where the campaign's folder is known, the file must exist there and be readable."""
    name = value.lower().removesuffix(".gz")
    if not name.endswith(FORMATS):
        raise fault(f'"{value}" is no table of molecules', f"takes: {', '.join(FORMATS)}, each also with .gz")
    base = (info.context or {}).get("base")
    if base is None:
        return value
    try:
        path = Path(base) / value
        if not path.is_file():
            what = "is not a regular file" if path.exists() else "does not exist"
            raise fault(f'"{value}" {what}', "relative paths start at the folder of the campaign file")
        with path.open("rb"):
            pass
    except OSError as error:
        raise fault(f'"{value}" cannot be read: {error.strerror or error}') from None
    return value


class EvolveSpec(Part):
    """Scripted search: edits and crosses the best so far, from a file of seeds."""

    kind: Literal["evolve"] = Field(description="Scripted search from seeds.")
    seeds: str = Field(description="csv, smi or sdf, also .gz; relative to the campaign file.")
    column: str = Field("smiles", min_length=1, description="Column of a csv that holds the structures.")
    batch: Count = Field(20, description="Candidates a turn.")
    max_heavy_atoms: Count = Field(60, description="Children with more heavy atoms than this are not proposed.")
    wait: bool = Field(
        False,
        strict=True,
        description="Propose, and start dearer rungs, only when all that was proposed has been through the first paid "
        "rung; what is found then does not depend on how fast the machine is.",
    )
    ahead: Count = Field(24, description="Propose again while fewer candidates than this wait for a paid rung.")

    _file = field_validator("seeds")(check_file)

    def files(self) -> dict[str, str]:
        """Field name to file, as given."""
        return {"seeds": self.seeds}


class ScreenSpec(Part):
    """Works through a file, in its order."""

    kind: Literal["screen"] = Field(description="Works through a file.")
    file: str = Field(description="csv, smi or sdf, also .gz; relative to the campaign file.")
    column: str = Field("smiles", min_length=1, description="Column of a csv that holds the structures.")
    batch: Count = Field(20, description="Candidates a turn.")

    _file = field_validator("file")(check_file)

    def files(self) -> dict[str, str]:
        """Field name to file, as given."""
        return {"file": self.file}


ProposerSpec = Annotated[EvolveSpec | ScreenSpec, Field(discriminator="kind")]


class ThresholdsSpec(Part):
    """A candidate goes on to the next rung when it passes the gate of the last one."""

    kind: Literal["thresholds"] = Field(description="By gates.")


class ExhaustiveSpec(Part):
    """Every rung on every candidate, in order of arrival."""

    kind: Literal["exhaustive"] = Field(description="Everything, in order of arrival.")


SchedulerSpec = Annotated[ThresholdsSpec | ExhaustiveSpec, Field(discriminator="kind")]
