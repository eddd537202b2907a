"""A page of metrics, read as Prometheus reads it."""

from __future__ import annotations

import urllib.request

from prometheus_client.parser import text_string_to_metric_families


def scraped(url: str) -> dict[str, dict[tuple[str, ...], float]]:
    """{metric: {label values in order of the labels' names: value}}, as Prometheus' own parser reads it."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        families = list(text_string_to_metric_families(answer.read().decode()))
    assert all(family.documentation for family in families)
    assert all(
        family.type == "counter" for family in families if any(s.name.endswith("_total") for s in family.samples)
    )
    metrics: dict[str, dict[tuple[str, ...], float]] = {}
    for sample in (sample for family in families for sample in family.samples):
        metrics.setdefault(sample.name, {})[tuple(v for _, v in sorted(sample.labels.items()))] = sample.value
    return metrics
