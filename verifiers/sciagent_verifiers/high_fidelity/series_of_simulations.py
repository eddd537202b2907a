"""The series that simulations of liquids and of crystals both leave: replicas, pair distributions, displacements."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.safe_text_and_durations import cut
from sciagent.domain.series import MEDIA_TYPE, Series, SeriesAxis, curve_series
from sciagent.verification.verifier_contract import ArtifactFile
from sciagent_simulators.dynamics.structure_and_diffusion import RadialDistribution

Array = NDArray[np.float64]
TIME = SeriesAxis(name="time", meaning="time", unit="ps")


def replica_columns(columns: Sequence[Array]) -> dict[str, list[float]]:
    """Returns the columns of the replicas by name."""
    return {f"replica_{number}": column.tolist() for number, column in enumerate(columns, start=1)}


def distribution_series(
    distributions: Sequence[tuple[str, RadialDistribution]], title: str, meaning: str
) -> dict[str, Series]:
    """Returns the series of pair distributions, with their errors, by its name; none without distributions.

    distributions: (name of the pair, distribution), all at the same distances. meaning: of the values."""
    if not distributions:
        return {}
    columns: dict[str, list[float]] = {}
    errors: dict[str, list[float]] = {}
    legend: dict[str, str] = {}
    for number, (name, found) in enumerate(distributions, start=1):
        label = f"g{number}_{re.sub('[^a-z0-9]+', '_', name.lower()).strip('_')[:36]}"
        columns[label] = found.g.tolist()
        legend[label] = cut(name, 60)
        if found.uncertainty is not None:
            errors[label] = found.uncertainty.tolist()
    distance = SeriesAxis(name="r", meaning="distance", unit="angstrom")
    values = SeriesAxis(name="g", meaning=meaning)
    r = distributions[0][1].r.tolist()
    title = f"pair distributions of {title}"
    return {"distribution": curve_series(title, distance, values, r, columns, errors, legend)}


def displacement_series(title: str, interval: float, columns: Mapping[str, list[float]]) -> Series:
    """Returns the series of mean squared displacements, angstrom^2. interval: ps from one to the next."""
    lags = interval * np.arange(len(next(iter(columns.values()))), dtype=float)
    return curve_series(
        f"mean squared displacement in {title}",
        SeriesAxis(name="lag", meaning="time", unit="ps"),
        SeriesAxis(name="displacement", meaning="mean squared displacement", unit="angstrom**2"),
        lags.tolist(),
        columns,
    )


def series_files(series: Mapping[str, Series], folder: Path, stem: str) -> tuple[ArtifactFile, ...]:
    """Writes series into a folder and returns their files. stem: the beginning of their names."""
    files = []
    for name, content in series.items():
        file = folder / f"{stem}-{name}.series.json"
        file.write_bytes(content.to_json())
        files.append(ArtifactFile(file.name, str(file), MEDIA_TYPE))
    return tuple(files)
