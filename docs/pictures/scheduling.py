"""Draws the pictures of docs/scheduling.md, by the code that they explain: python docs/pictures/scheduling.py

The first picture (`draw_law`) and the third (`draw_recall`) come from the table of 4,000 molecules of QM9 in
benchmarks/scheduling, the second (`draw_price`) from the dynamic programme alone. The figures that the page states are
written into scheduling.json, beside this file. It takes two minutes on one core.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # before numpy is there
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sciagent.report.parts.campaign_charts import COLOURS, SETTINGS
from sciagent.scheduling.aims_and_payoff import Aim, Aims
from sciagent.scheduling.dynamic_programme import PRICES, STOP, TERMINAL, Programme, U, solve_left
from sciagent.scheduling.law.answer_transforms import TruthTransform, between
from sciagent.scheduling.law.gaussian_process_chain import Chain, Similarity
from sciagent.scheduling.law.rung_hints import UNTIL, Hint, hint_rows
from sciagent.scheduling.rules.priced import Priced
from sciagent_bench.case_from_csv import parse_rungs, read_case
from sciagent_bench.replay_cases import Case, OfTable, Reordered
from sciagent_bench.replay_once import Replay, Truth, simulate
from sciagent_bench.replay_score import MARKS, Curve
from sciagent_bench.schedulers import SCHEDULERS, Facts

Array = NDArray[np.float64]
Places = NDArray[np.intp]

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "benchmarks" / "scheduling"
TABLE = BENCH / "qm9_s4000_xtb.csv.gz"
FIGURES = Path(__file__).with_suffix(".json")

# The first picture. All gaps are in eV.
WINDOW = (5.0, 5.5)  # B3LYP gaps that are wanted
GATE = (2.0, 3.8)  # GFN2 gaps that the gate lets through
SMALLEST_SPREAD = 0.25  # of the hint that the gate gives
N_LEARNT = 40  # DFT calculations of randomly drawn molecules
SHOWN_GAPS = (2.7, 5.5)  # GFN2 gaps of two molecules
N_EARLY = 50  # DFT calculations after which campaigns with and without the gate are compared
N_BUDGET = 150  # all DFT calculations of these campaigns

# The second picture. A rung: (cost in terminal verifications, share of the terminal answer's variance that it tells).
USEFUL_RUNG = (0.05, 0.6)
POOR_RUNG = (0.3, 0.2)
CHANCES = {"A": 0.003, "B": 0.03, "C": 0.2, "D": 0.7}
"""{candidate: its chance of a hit}."""
PRICE = 0.1

# The third picture.
GOALS = {"qm9_min": ("min", "the smallest gaps"), "qm9_max": ("max", "the largest gaps")}
COMPARED = ("priced", "halving", "best_rung", "thresholds")
RUNGS = "gap_GFN2:0.03,gap_GFN1:0.035,gap_dft_eV:600"


@dataclass(frozen=True)
class Belief:
    """The law's expectation of DFT gaps as a curve over GFN2 gaps. All gaps are in eV."""

    gfn2: Array
    """GFN2 gaps of the molecules that DFT has answered."""
    dft: Array
    """DFT gaps of the same molecules."""
    x: Array
    """GFN2 gaps at which the curve is given, ascending."""
    mean: Array
    """Expected DFT gap at each x."""
    sd: Array
    """Standard deviation of the expected DFT gap at each x."""


@dataclass(frozen=True)
class Candidate:
    """The DFT gap of one molecule that the law expects, in eV."""

    gfn2: float | None
    """GFN2 gap; None before GFN2 has answered."""
    mean: float
    sd: float
    chance: float
    """Chance that the DFT gap lies in the window."""


@dataclass(frozen=True)
class Windowed:
    """The table as a campaign with a window sees it: GFN2, then DFT."""

    truth: Truth
    aims: Aims
    similarity: Similarity | None
    """None: the law does not look at structures."""
    lost: int
    """Number of hits that the gate drops."""

    @classmethod
    def of(cls, hinted: bool, gated: bool, structure: bool) -> Windowed:
        """Returns the table. hinted: the law begins with the hint of the gate. gated: the gate drops candidates.
        structure: the law looks at structures."""
        rungs = parse_rungs("gap_GFN2:0.03,gap_dft_eV:600")
        case = read_case(TABLE, rungs, "min", 0.01, "smiles" if structure else None)
        scores = case.truth.scores
        costs = case.truth.costs
        similarity = case.similarity
        hit = (scores[:, 1] >= WINDOW[0]) & (scores[:, 1] <= WINDOW[1])
        offsets = [wanted - gate for wanted, gate in zip(WINDOW, GATE, strict=True)]
        spread = max(abs(offsets[1] - offsets[0]) / 3, SMALLEST_SPREAD)  # as in `campaign.observations`
        if hinted:
            aim = Aim((0, 1), *WINDOW, hint=Hint(0, 1, 1.0, float(np.mean(offsets)), spread))
        else:
            aim = Aim((0, 1), *WINDOW, alike=((0, 1),))
        aims = Aims((aim,))
        passes_gate = np.ones(len(hit), dtype=bool)
        if gated:
            passes_gate = (scores[:, 0] >= GATE[0]) & (scores[:, 0] <= GATE[1])
        places = np.flatnonzero(passes_gate)
        if similarity is not None:
            similarity = Reordered(similarity, places)
        truth = Truth(scores[places], costs[places], hit[places])
        return cls(truth, aims, similarity, int(hit.sum() - truth.hit.sum()))

    def run(self) -> Replay:
        """Returns the run of the scheduler `priced` with N_BUDGET terminal verifications."""
        budget = N_BUDGET / len(self.truth.hit)
        return simulate(self.truth, Priced(self.aims, self.similarity, 0, budget * self.truth.exhaustive), budget)

    def law(self, bought: Places, unseen: Places | None = None) -> tuple[Chain, TruthTransform]:
        """Returns the law and its scale. bought: molecules that DFT has answered. unseen: molecules without an answer
        of GFN2, which all others have."""
        scores = self.truth.scores.copy()
        if unseen is not None:
            scores[unseen, 0] = np.nan
        scores[np.setdiff1d(np.arange(len(scores)), bought), 1] = np.nan
        stated = hint_rows(self.aims.hints, scores)
        [scale] = self.aims.truths(scores if len(bought) else stated)
        if len(bought) < UNTIL:
            scores = np.vstack([scores, stated])
        return Chain(scores, scale, None), scale


def beliefs() -> tuple[list[Belief], list[Candidate]]:
    """Returns the belief before and after the DFT answers, and the expected gaps of two molecules.

    The first molecule comes twice: before and after GFN2 has answered. The law does not look at structures, so that its
    expectation is a curve.
    """
    table = Windowed.of(hinted=True, gated=False, structure=False)
    gfn2, dft = table.truth.scores.T
    known = np.flatnonzero(~np.isnan(gfn2))
    by_gap = known[np.argsort(gfn2[known])]
    drawn = np.random.default_rng(3).permutation(known)[:N_LEARNT]
    nothing_bought = drawn[:0]
    curves_of_law = []
    for bought in (nothing_bought, drawn):
        law_of_purchases = table.law(bought)
        mean, sd = _expected(*law_of_purchases, by_gap)
        curves_of_law.append(Belief(gfn2[bought], dft[bought], gfn2[by_gap], mean, sd))
    unbought = np.setdiff1d(known, drawn)
    two = unbought[[int(np.abs(gfn2[unbought] - gap).argmin()) for gap in SHOWN_GAPS]]
    before_gfn2 = _candidates(*table.law(drawn, two[:1]), two[:1], [None])
    after_gfn2 = _candidates(*table.law(drawn), two, [float(gfn2[place]) for place in two])
    return curves_of_law, [*before_gfn2, *after_gfn2]


def _expected(chain: Chain, scale: TruthTransform, candidates: Places) -> tuple[Array, Array]:
    """Returns mean and standard deviation of the expected DFT gaps, in eV. The same rungs have answered all
    candidates."""
    [(places, forecast)] = chain.forecast(candidates)
    order = np.argsort(places)
    return scale.inverse(forecast.mean[order]), scale.scale * np.sqrt(forecast.variance[order])


def _candidates(chain: Chain, scale: TruthTransform, places: Places, gaps: Sequence[float | None]) -> list[Candidate]:
    """Returns the expectation of each molecule. gaps: GFN2 gaps, None before GFN2."""
    means, sds = _expected(chain, scale, places)
    chances = between(means, sds, *WINDOW)
    candidates = []
    for gap, mean, sd, chance in zip(gaps, means, sds, chances, strict=True):
        candidates.append(Candidate(gap, float(mean), float(sd), float(chance)))
    return candidates


def found_early() -> dict[str, list[float]]:
    """Returns the hits among the first N_EARLY and among all DFT calculations, with the gate and without it; and the
    numbers that a random choice would find."""
    hits_by_campaign: dict[str, list[float]] = {}
    for name, with_gate in (("with the gate", True), ("without", False)):
        table = Windowed.of(with_gate, with_gate, structure=True)
        run = table.run()
        hits_of_dft = [hit for hit, rung in zip(run.hit, run.rung, strict=True) if rung == 1]
        hits = np.cumsum(hits_of_dft)
        hit_share = float(table.truth.hit.mean())
        hits_by_campaign[name] = [int(hits[N_EARLY - 1]), int(hits[-1])]
        hits_by_campaign[f"drawn, {name}"] = [round(hit_share * n, 1) for n in (N_EARLY, N_BUDGET)]
    return hits_by_campaign


def programme(cost: float, told_share: float) -> Programme:
    """Returns the dynamic programme of one rung below the terminal one.

    cost: in terminal verifications. told_share: share of the terminal answer's variance that the rung tells."""
    return solve_left(np.array([1.0, 1.0 - told_share]), [cost])


def index_and_action(solved: Programme, chance: float) -> tuple[float, str]:
    """Returns the index of a candidate with this chance of a hit, and `leave`, `buy` or `verify`: the action at
    PRICE."""
    u = np.array([float(ndtri(chance))])
    words = {STOP: "leave", TERMINAL: "verify", 0: "buy"}
    return float(solved.index(u)[0]), words[int(solved.action(u, PRICE)[0])]


def curves(goal: str) -> dict[str, Curve]:
    """Returns, by scheduler, recall against cost of one run, up to 95 % of the hits."""
    case: Case = OfTable(read_case(TABLE, parse_rungs(RUNGS), goal, 0.01, "smiles"))(0)
    truth = case.truth
    curve_by_scheduler = {}
    for name in COMPARED:
        facts = Facts(case.threshold, case.sign, case.similarity, 0, truth.exhaustive, truth.costs.shape[1])
        run = simulate(truth, SCHEDULERS[name](facts), 1.0, enough=max(MARKS))
        curve_by_scheduler[name] = Curve.of(run, truth)
    return curve_by_scheduler


def stored(name: str) -> dict[str, dict[float, float]]:
    """Returns {scheduler: {recall: cost}} as the benchmark has it. name: of its table."""
    results = json.loads((BENCH / f"{name}.json").read_text(encoding="utf-8"))["schedulers"]
    costs: dict[str, dict[float, float]] = {}
    for scheduler in COMPARED:
        cost_to = results[scheduler]["cost_to"]
        costs[scheduler] = {float(recall): cost[0] for recall, cost in cost_to.items()}
    return costs


def colours() -> dict[str, str]:
    """Returns {name: code} of the report's colours in the light theme."""
    sheet = (resources.files("sciagent.report") / "static" / "colours.css").read_text(encoding="utf-8")
    shown: dict[str, str] = {}
    for name, code in re.findall(r"--c-(\w+): (#[0-9a-f]{6})", sheet):
        shown.setdefault(name, code)
    return shown


C = colours()


def settings() -> Any:
    """Returns the settings of the report's charts with the light colours, on white: a picture cannot follow the
    theme."""
    real_codes = {code: C[name] for name, code in COLOURS.items()}
    adapted = {}
    for key, value in SETTINGS.items():
        adapted[key] = real_codes.get(value, value) if isinstance(value, str) else value
    return adapted | {"figure.facecolor": C["surface"], "savefig.facecolor": C["surface"]}


def panels(width: float, height: float, n: int, **more: Any) -> tuple[Any, Any]:
    """Returns a figure and its n axes, side by side. width, height: in inches."""
    from matplotlib.figure import Figure

    chart = Figure(figsize=(width, height), layout="constrained")
    return chart, chart.subplots(1, n, **more)


def draw_law(path: Path) -> None:
    """Draws the law before and after DFT answers, and the expected gaps of two molecules."""
    (before, after), candidates = beliefs()
    chart, axes = panels(10.6, 4.0, 3, sharey=True)
    _draw_belief(axes[0], before, "before any DFT")
    _draw_belief(axes[1], after, f"after {N_LEARNT} DFT answers")
    axes[0].set_ylabel("DFT gap, eV")
    axes[0].set_ylim(2, 12)
    for edge in GATE:
        axes[0].axvline(edge, 0, 0.9, color=C["failed"], linewidth=1.2, linestyle=(0, (4, 3)))
    axes[0].text(GATE[1] + 0.2, 2.3, "the gate", color=C["failed"])
    axes[0].text(12.8, WINDOW[0] - 0.1, "wanted", color=C["hit"], ha="right", va="top", fontweight="bold")
    axes[0].text(0.3, 11.8, "what the gate says", color=C["passed"], va="top")
    axes[1].text(0.3, 11.8, "what the answers say; band 95 %", color=C["passed"], va="top")
    _draw_molecules(axes[2], candidates)
    chart.savefig(path, dpi=130)


def _draw_belief(axes: Any, belief: Belief, title: str) -> None:
    """Draws the expected DFT gap with a band of two standard deviations, over all molecules of the table."""
    all_gaps = Windowed.of(hinted=False, gated=False, structure=False).truth.scores
    low = belief.mean - 2 * belief.sd
    high = belief.mean + 2 * belief.sd
    axes.axhspan(*WINDOW, color=C["hit"], alpha=0.18, linewidth=0)
    axes.fill_between(belief.x, low, high, color=C["passed"], alpha=0.2, linewidth=0)
    axes.plot(*all_gaps.T, ".", color=C["waiting"], markersize=2, alpha=0.6, markeredgewidth=0, zorder=1)
    axes.plot(belief.x, belief.mean, color=C["passed"], linewidth=2.2)
    axes.plot(belief.gfn2, belief.dft, "o", color=C["ink"], markersize=5.5, markeredgecolor=C["surface"])
    axes.set_title(title, fontsize=11.5, loc="left")
    axes.set_xlabel("GFN2 gap, eV: known for all")
    axes.set_xlim(0, 13)


def _draw_molecules(axes: Any, candidates: Sequence[Candidate]) -> None:
    """Draws the densities of the expected DFT gaps: of one molecule before GFN2, then of both after GFN2."""
    axes.axhspan(*WINDOW, color=C["hit"], alpha=0.18, linewidth=0)
    y = np.linspace(2, 12, 400)
    colours_of_lines = (C["muted"], C["passed"], C["failed"])
    dashes = ("--", "-", "-.")
    text_shifts = (1.9, 0.0, 0.0)  # in eV, so that texts do not overlap
    heights = [1 / (candidate.sd * np.sqrt(2 * np.pi)) for candidate in candidates]
    drawn = zip(candidates, dashes, colours_of_lines, text_shifts, heights, strict=True)
    for molecule, line, colour, shift, height in drawn:
        density = height * np.exp(-(((y - molecule.mean) / molecule.sd) ** 2) / 2)
        axes.plot(density, y, line, color=colour, linewidth=2)
        axes.fill_betweenx(y, 0, density, color=colour, alpha=0.08, linewidth=0)
        known = "before GFN2" if molecule.gfn2 is None else f"GFN2 says {molecule.gfn2:.1f} eV"
        text = f"{known}:\n{percent(molecule.chance)} in the window"
        axes.text(height + 0.03 * max(heights), molecule.mean + shift, text, color=colour, va="center", fontsize=10)
    axes.set_xlim(0, 2.3 * max(heights))
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.set_title("two molecules", fontsize=11.5, loc="left")
    axes.set_xlabel("how likely")


LOWEST_INDEX = 0.0015  # lower end of the axis of the second picture
U_ENDS = (float(ndtri(0.0008)), float(ndtri(0.975)))
"""Ends of its other axis: the chance of a hit as a quantile u of the normal distribution."""


def draw_price(path: Path) -> None:
    """Draws the index of a candidate against its chance of a hit, with a useful rung and with a poor one."""
    chart, axes = panels(10.6, 4.7, 2, sharey=True)
    titles = (
        "a rung at 5 % of the terminal cost,\nit tells 60 % of the variance",
        "a rung at 30 % of the terminal cost,\nit tells 20 % of the variance",
    )
    # (u, index, text, colour) of the words in each panel
    words: list[list[tuple[float, float, str, str]]] = [
        [(-2.3, 0.45, "leave", "muted"), (-0.75, 0.02, "buy the rung", "passed"), (0.95, 0.006, "verify", "hit")],
        [(-2.3, 0.45, "leave", "muted"), (0.4, 0.02, "verify", "hit")],
    ]
    box = {"facecolor": C["surface"], "edgecolor": "none", "alpha": 0.85, "boxstyle": "round,pad=0.25"}
    for panel, rung, title, words_of_panel in zip(axes, (USEFUL_RUNG, POOR_RUNG), titles, words, strict=True):
        solved = programme(*rung)
        _draw_index(panel, solved)
        for name, chance in CHANCES.items():
            _draw_candidate(panel, solved, name, chance)
        for u, index, text, colour in words_of_panel:
            panel.text(u, index, text, color=C[colour], fontsize=12, fontweight="bold", ha="center", bbox=box)
        _finish_price_panel(panel, title)
    axes[0].set_ylabel("index and price:\nhits for the cost of one verification")
    chart.savefig(path, dpi=130)


def _draw_index(axes: Any, solved: Programme) -> None:
    """Draws the index as a line, and the areas in which a candidate is left, verified, or sent to the rung."""
    u = np.array([value for value in U if U_ENDS[0] <= value <= U_ENDS[1]])
    index = solved.index(u)
    prices, verified_from = _verified_from(solved)
    is_shown = verified_from < U_ENDS[1]
    axes.fill_between(u, LOWEST_INDEX, index, facecolor="#d3e3f4", edgecolor="#9dbfe2", hatch="//", linewidth=0)
    axes.fill_betweenx(prices, verified_from, U_ENDS[1], color="#cfe8db", linewidth=0, where=is_shown)
    axes.fill_between(u, index, 1, color="#eef0f3", linewidth=0)
    axes.plot(u, index, color=C["ink"], linewidth=2.2)
    axes.axhline(PRICE, color=C["failed"], linewidth=1.6, linestyle=(0, (5, 3)))


def _draw_candidate(axes: Any, solved: Programme, name: str, chance: float) -> None:
    """Draws a candidate on the line of the index, and a mark for its action on the line of the price."""
    index, action = index_and_action(solved, chance)
    u = float(ndtri(chance))
    axes.plot([u, u], [LOWEST_INDEX, max(index, PRICE)], color=C["ink"], linewidth=0.9, linestyle=":")
    axes.plot(u, index, "o", color=C["ink"], markersize=8, markeredgecolor=C["surface"], zorder=3)
    axes.text(u - 0.08, index * 1.1, name, ha="right", va="bottom", fontweight="bold", fontsize=12)
    mark = {"leave": "x", "buy": "s", "verify": "^"}[action]
    edge_width = 2.4 if mark == "x" else 0
    axes.plot(u, PRICE, mark, color=C["failed"], markersize=9, zorder=3, markeredgewidth=edge_width)


def _finish_price_panel(axes: Any, title: str) -> None:
    from matplotlib.ticker import NullFormatter

    axes.text(U_ENDS[1] - 0.05, PRICE * 1.08, "price", color=C["failed"], ha="right", va="bottom", fontweight="bold")
    axes.set_yscale("log")
    axes.set_xlim(*U_ENDS)
    axes.set_ylim(LOWEST_INDEX, 1)
    chances = (0.001, 0.01, 0.1, 0.3, 0.5, 0.9)
    axes.set_xticks([float(ndtri(chance)) for chance in chances], [f"{100 * chance:g} %" for chance in chances])
    axes.set_yticks([0.003, 0.01, 0.03, 0.1, 0.3, 1.0], ["0.003", "0.01", "0.03", "0.1", "0.3", "1"])
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("expected chance of a hit, as of now")
    axes.set_title(title, fontsize=11.5, loc="left")


def _verified_from(solved: Programme) -> tuple[Array, Array]:
    """Returns prices, and for each price the u from which on a candidate is verified.

    At a price at which the rung is not bought, this u lies on the line of the index.
    """
    columns = np.array([column for column, price in enumerate(PRICES) if LOWEST_INDEX / 2 <= price < 1])
    is_verified = (solved.best == TERMINAL)[:, columns]
    is_rung_bought = (solved.best == 0)[:, columns].any(0)
    half_step = (U[1] - U[0]) / 2
    first_verified = U[is_verified.argmax(0)] - half_step
    return PRICES[columns], np.where(is_rung_bought, first_verified, solved.begins[columns])


RECALL_STYLES = {
    "priced": ("hit", "-", "o"),
    "halving": ("failed", "--", "s"),
    "best_rung": ("passed", "-.", "D"),
    "thresholds": ("refused", ":", "^"),
}
"""{scheduler: (colour, dashes, marker)}."""


def draw_recall(path: Path) -> None:
    """Draws the share of found hits against cost: one run of each scheduler, and the benchmark's costs as markers."""
    chart, axes = panels(10.6, 4.1, 2, sharey=True)
    for panel, (name, (goal, words)) in zip(axes, GOALS.items(), strict=True):
        runs = curves(goal)
        benchmark_costs = stored(name)
        for scheduler in COMPARED:
            _draw_scheduler(panel, scheduler, runs[scheduler], benchmark_costs[scheduler])
        panel.set_xscale("log")
        panel.set_xlim(0.5, 25)
        panel.set_xticks([0.5, 1, 2, 5, 10, 20], ["0.5", "1", "2", "5", "10", "20"])
        panel.minorticks_off()
        panel.set_ylim(0, 100)
        panel.set_xlabel("cost, % of DFT for all")
        panel.set_title(f"the 1 % with {words}", fontsize=11.5, loc="left")
        panel.grid(True)
    for scheduler in COMPARED:  # entries of the legend
        colour, dashes, marker = RECALL_STYLES[scheduler]
        axes[0].plot([], [], dashes, marker=marker, color=C[colour], linewidth=2, markersize=7, label=scheduler)
    axes[0].set_ylabel("hits found, %")
    chart.legend(loc="outside upper center", ncols=4)
    chart.savefig(path, dpi=130)


def _draw_scheduler(axes: Any, scheduler: str, run: Curve, benchmark_costs: dict[float, float]) -> None:
    """Draws the run of a scheduler as steps up to the highest mark. benchmark_costs: {recall: cost}."""
    colour, dashes, marker = RECALL_STYLES[scheduler]
    is_ours = scheduler == "priced"
    end = int(np.argmax(run.recall >= max(MARKS))) + 1
    axes.step(
        100 * run.spent[:end],
        100 * run.recall[:end],
        dashes,
        where="post",
        color=C[colour],
        linewidth=2.6 if is_ours else 1.8,
        zorder=3 if is_ours else 2,
    )
    axes.plot(
        [100 * cost for cost in benchmark_costs.values()],
        [100 * recall for recall in benchmark_costs],
        marker,
        color=C[colour],
        markersize=7,
        markeredgecolor=C["surface"],
        zorder=4,
        linestyle="none",
    )


def percent(chance: float) -> str:
    """Returns a text such as `3 %` or `0.4 %`."""
    if chance >= 0.01:
        return f"{100 * chance:.0f} %"
    if chance >= 0.001:
        return f"{100 * chance:.1f} %"
    return "under 0.1 %"


PICTURES = {"scheduling_law": draw_law, "scheduling_price": draw_price, "scheduling_recall": draw_recall}


def priced_examples() -> dict[str, list[Any]]:
    """Returns for each candidate its chance, then its index and action with the useful rung and with the poor one."""
    programmes = [programme(*USEFUL_RUNG), programme(*POOR_RUNG)]
    rows: dict[str, list[Any]] = {}
    for name, chance in CHANCES.items():
        rows[name] = [chance]
        for solved in programmes:
            index, action = index_and_action(solved, chance)
            rows[name] += [round(index, 3), action]
    return rows


def figures() -> dict[str, Any]:
    """Returns the figures that the page states about the pictures."""
    _, candidates = beliefs()
    molecules = []
    for candidate in candidates:
        gap = None if candidate.gfn2 is None else round(candidate.gfn2, 1)
        molecules.append([gap, percent(candidate.chance)])
    lost = Windowed.of(hinted=False, gated=True, structure=False).lost
    return {"law": molecules, "price": priced_examples(), "early": found_early(), "lost to the gate": lost}


def main() -> None:
    import matplotlib

    with matplotlib.rc_context(settings()):
        for name, draw in PICTURES.items():
            draw(ROOT / "docs" / f"{name}.png")
    FIGURES.write_text(json.dumps(figures(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
