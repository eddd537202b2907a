"""Series: named curves over axes with units, which verifiers leave as artifacts."""

from sciagent.domain.series.curves import (
    MAX_BYTES,
    MEDIA_TYPE,
    CurveRole,
    Series,
    SeriesAxis,
    SeriesColumn,
    SeriesCurve,
    read_series,
)

__all__ = ["MAX_BYTES", "MEDIA_TYPE", "CurveRole", "Series", "SeriesAxis", "SeriesColumn", "SeriesCurve", "read_series"]
