"""The glossary of a report, for chemists; docs/chemist.md has the same table."""

from __future__ import annotations

WORDS: tuple[tuple[str, str], ...] = (
    ("candidate", "a molecule or crystal in the campaign, identified by its standardised structure"),
    ("class", "of an uncertainty: usual for such candidates, not computed for this one"),
    ("evidence", "a result in the ledger: value, uncertainty, level, cost and origin"),
    ("gate", "limits on a rung's own values; a candidate that misses them goes no further"),
    ("hit", "a candidate that meets every objective at the rung that decides"),
    ("ladder", "the rungs of a campaign, from the cheapest to the one that decides"),
    ("level", "how a value was obtained, such as PBE0/def2-SVP on a GFN2-xTB geometry"),
    ("mean absolute error", "mean distance of a method's values from experiment, regardless of sign"),
    ("mean error", "mean of computed minus measured: by how much a method is too high (+) or too low (-)"),
    ("method's error", "how far a method's values lie from experiment for other compounds; it is not in the ±"),
    ("objective", "what is wanted of a property: limits, or a direction"),
    ("recall", "share of all hits among the candidates that were found; an estimate"),
    ("repeatability", "how much this value changes when the same protocol runs again; the ±, k = 1"),
    ("rung", "one step of the ladder: a calculation with its settings, gate and limits"),
    ("score", "how near the gates and objectives a candidate is, from 0 to 1; not a probability"),
    ("Spearman", "rank correlation: 1 if two rungs order the candidates alike, 0 if they are unrelated"),
    ("utility", "the objectives in one number, from 0 to 1: the geometric mean of how well each is met"),
    ("verified", "the rung that decides has answered"),
)
