"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Ledger = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="URL",
        help="Database file, or URL without a password; default: $SCIAGENT_LEDGER, then ./sciagent.db.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, for scripts.")]
Who = Annotated[
    str | None, typer.Option("--who", metavar="NAME", help="Who says so; default: the user of this machine.")
]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why; it is kept with your name and the time.")]
CampaignName = Annotated[str | None, typer.Argument(help="The campaign; may be left out if there is only one.")]
Campaign = Annotated[
    str | None, typer.Option("--campaign", "-c", help="The campaign; may be left out if there is only one.")
]
Candidate = Annotated[
    str,
    typer.Argument(
        metavar="CANDIDATE",
        help="SMILES or another notation, the text that `sciagent best` shows, a file of its structure, its name, at "
        "least 6 digits of the key, or InChIKey.",
    ),
]
AllowFile = Annotated[
    Path | None,
    typer.Option(
        "--allow",
        metavar="LIST",
        help="YAML file of what submitted campaigns may name: commands, endpoints, variables, folders, code, plugins; "
        "default: $SCIAGENT_ALLOW_FILE.",
    ),
]
Site = Annotated[
    Path | None, typer.Option("--site", help="Of --executor slurm: the site profile; default: $SCIAGENT_SLURM_SITE.")
]
