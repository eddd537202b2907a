"""The pictures of docs/scheduling.md, by the code that they explain: python docs/pictures/scheduling.py

Two come from the table of 4,000 molecules of QM9 in benchmarks/scheduling, one from the programme alone. What the page
says of them in figures is written into scheduling.json, beside this file. Two minutes on one core.
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

from sciagent.report.parts.charts import COLOURS, SETTINGS
from sciagent.scheduling.aims import Aim, Aims
from sciagent.scheduling.dynamic_programme import PRICES, STOP, TERMINAL, Programme, U, solve_left
from sciagent.scheduling.law.chain import Chain, Similarity
from sciagent.scheduling.law.hints import UNTIL, Hint, made_up
from sciagent.scheduling.law.transforms import TruthTransform, between
from sciagent.scheduling.rules.priced import Priced
from sciagent_bench.case import Case, OfTable, Reordered
from sciagent_bench.schedulers import SCHEDULERS, Facts
from sciagent_bench.score import MARKS, Curve
from sciagent_bench.simulate import Replay, Truth, simulate
from sciagent_bench.table import parse_rungs, read_case

Array = NDArray[np.float64]
Places = NDArray[np.intp]

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "benchmarks" / "scheduling"
TABLE = BENCH / "qm9_s4000_xtb.csv.gz"
FIGURES = Path(__file__).with_suffix(".json")

# the first picture, in eV: B3LYP gaps that are wanted, GFN2 gaps that the gate lets through, and their unit of length
WINDOW, GATE, SCALE = (5.0, 5.5), (2.0, 3.8), 0.25
LEARNT = 40  # DFT calculations of molecules that are drawn
SHOWN_GAPS = 2.7, 5.5  # GFN2 gaps of two molecules
EARLY, BUDGET = 50, 150  # DFT calculations by which campaigns with and without the gate are compared

# the second: a rung's cost in terminal verifications, and the share of the terminal answer's variance that it tells
USEFUL, POOR = (0.05, 0.6), (0.3, 0.2)
CHANCES = {"A": 0.003, "B": 0.03, "C": 0.2, "D": 0.7}
PRICE = 0.1

# the third
GOALS = {"qm9_min": ("min", "the smallest gaps"), "qm9_max": ("max", "the largest gaps")}
COMPARED = ("priced", "halving", "best_rung", "thresholds")
RUNGS = "gap_GFN2:0.03,gap_GFN1:0.035,gap_dft_eV:600"


@dataclass(frozen=True)
class Belief:
    """All in eV. gfn2, dft: of what was answered. x: GFN2 gaps, ascending; mean, sd: of what DFT is expected to say."""

    gfn2: Array
    dft: Array
    x: Array
    mean: Array
    sd: Array


@dataclass(frozen=True)
class Candidate:
    """What the law expects of one molecule's DFT gap, in eV, and the chance that it lies in the window."""

    gfn2: float | None
    mean: float
    sd: float
    chance: float


@dataclass(frozen=True)
class Windowed:
    """The table as a campaign with a window sees it: GFN2, then DFT. lost: hits that the gate drops."""

    truth: Truth
    aims: Aims
    similarity: Similarity | None
    lost: int

    @classmethod
    def of(cls, hinted: bool, gated: bool, structure: bool) -> Windowed:
        """hinted: the law begins with what the gate says; gated: the gate drops, too."""
        rungs = parse_rungs("gap_GFN2:0.03,gap_dft_eV:600")
        case = read_case(TABLE, rungs, "min", 0.01, "smiles" if structure else None)
        scores, costs, similarity = case.truth.scores, case.truth.costs, case.similarity
        hit = (scores[:, 1] >= WINDOW[0]) & (scores[:, 1] <= WINDOW[1])
        off = [wanted - gate for wanted, gate in zip(WINDOW, GATE, strict=True)]
        hint = Hint(0, 1, 1.0, float(np.mean(off)), max(abs(off[1] - off[0]) / 3, SCALE))  # as `campaign.observations`
        aims = Aims((Aim((0, 1), *WINDOW, hint=hint) if hinted else Aim((0, 1), *WINDOW, alike=((0, 1),)),))
        through = np.ones(len(hit), dtype=bool)
        if gated:
            through = (scores[:, 0] >= GATE[0]) & (scores[:, 0] <= GATE[1])
        places = np.flatnonzero(through)
        if similarity is not None:
            similarity = Reordered(similarity, places)
        truth = Truth(scores[places], costs[places], hit[places])
        return cls(truth, aims, similarity, int(hit.sum() - truth.hit.sum()))

    def run(self) -> Replay:
        """What `priced` buys."""
        budget = BUDGET / len(self.truth.hit)
        return simulate(self.truth, Priced(self.aims, self.similarity, 0, budget * self.truth.exhaustive), budget)

    def law(self, bought: Places, unseen: Places | None = None) -> tuple[Chain, TruthTransform]:
        """Of DFT answers for some, and of GFN2's for all but `unseen`."""
        scores = self.truth.scores.copy()
        if unseen is not None:
            scores[unseen, 0] = np.nan
        scores[np.setdiff1d(np.arange(len(scores)), bought), 1] = np.nan
        stated = made_up(self.aims.hints, scores)
        [scale] = self.aims.truths(scores if len(bought) else stated)
        if len(bought) < UNTIL:
            scores = np.vstack([scores, stated])
        return Chain(scores, scale, None), scale


def beliefs() -> tuple[list[Belief], list[Candidate]]:
    """Before and after the answers; and of two molecules, before and after GFN2. The law without structure, for then
    what it expects is a curve."""
    table = Windowed.of(hinted=True, gated=False, structure=False)
    gfn2, dft = table.truth.scores.T
    known = np.flatnonzero(~np.isnan(gfn2))
    order, drawn = known[np.argsort(gfn2[known])], np.random.default_rng(3).permutation(known)[:LEARNT]
    found = []
    for some in (drawn[:0], drawn):
        mean, sd = _expected(*table.law(some), order)
        found.append(Belief(gfn2[some], dft[some], gfn2[order], mean, sd))
    free = np.setdiff1d(known, drawn)
    two = free[[int(np.abs(gfn2[free] - gap).argmin()) for gap in SHOWN_GAPS]]
    before = _candidates(*table.law(drawn, two[:1]), two[:1], [None])
    return found, [*before, *_candidates(*table.law(drawn), two, [float(gfn2[i]) for i in two])]


def _expected(chain: Chain, scale: TruthTransform, of: Places) -> tuple[Array, Array]:
    """In eV, of candidates that have seen the same."""
    [(places, forecast)] = chain.forecast(of)
    order = np.argsort(places)
    return scale.inverse(forecast.mean[order]), scale.scale * np.sqrt(forecast.variance[order])


def _candidates(chain: Chain, scale: TruthTransform, of: Places, gaps: Sequence[float | None]) -> list[Candidate]:
    means, sds = _expected(chain, scale, of)
    chances = between(means, sds, *WINDOW)
    return [Candidate(gap, *map(float, one)) for gap, *one in zip(gaps, means, sds, chances, strict=True)]


def found_early() -> dict[str, list[float]]:
    """Hits among the first EARLY and all DFT calculations: with a gate and without, and if they were drawn."""
    found: dict[str, list[float]] = {}
    for name, with_gate in (("with the gate", True), ("without", False)):
        table = Windowed.of(with_gate, with_gate, structure=True)
        run = table.run()
        hits = np.cumsum([hit for hit, rung in zip(run.hit, run.rung, strict=True) if rung == 1])
        found[name] = [int(hits[EARLY - 1]), int(hits[-1])]
        found[f"drawn, {name}"] = [round(float(table.truth.hit.mean()) * n, 1) for n in (EARLY, BUDGET)]
    return found


def programme(cost: float, tells: float) -> Programme:
    """Of one rung below the terminal one."""
    return solve_left(np.array([1.0, 1.0 - tells]), [cost])


def verdict(one: Programme, chance: float) -> tuple[float, str]:
    """Index of a candidate with this chance of a hit, and what is done with it at PRICE."""
    u = np.array([float(ndtri(chance))])
    words = {STOP: "leave", TERMINAL: "verify", 0: "buy"}
    return float(one.index(u)[0]), words[int(one.action(u, PRICE)[0])]


def curves(goal: str) -> dict[str, Curve]:
    """Recall against cost of one run each, up to 95 % of the hits."""
    case: Case = OfTable(read_case(TABLE, parse_rungs(RUNGS), goal, 0.01, "smiles"))(0)
    truth, found = case.truth, {}
    for name in COMPARED:
        facts = Facts(case.threshold, case.sign, case.similarity, 0, truth.exhaustive, truth.costs.shape[1])
        found[name] = Curve.of(simulate(truth, SCHEDULERS[name](facts), 1.0, enough=max(MARKS)), truth)
    return found


def stored(name: str) -> dict[str, dict[float, float]]:
    """Cost of each recall, by scheduler, as the benchmark has it."""
    found = json.loads((BENCH / f"{name}.json").read_text(encoding="utf-8"))["schedulers"]
    return {one: {float(at): cost[0] for at, cost in found[one]["cost_to"].items()} for one in COMPARED}


def colours() -> dict[str, str]:
    """The report's, for light."""
    sheet = (resources.files("sciagent.report") / "static" / "colours.css").read_text(encoding="utf-8")
    shown: dict[str, str] = {}
    for name, code in re.findall(r"--c-(\w+): (#[0-9a-f]{6})", sheet):
        shown.setdefault(name, code)
    return shown


C = colours()


def settings() -> Any:
    """On white in any theme: the page does not say which one it is read in."""
    real = {code: C[name] for name, code in COLOURS.items()}
    found = {key: real.get(value, value) if isinstance(value, str) else value for key, value in SETTINGS.items()}
    return found | {"figure.facecolor": C["surface"], "savefig.facecolor": C["surface"]}


def panels(width: float, height: float, n: int, **more: Any) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    return made, made.subplots(1, n, **more)


def draw_law(path: Path) -> None:
    (first, later), candidates = beliefs()
    made, axes = panels(10.6, 4.0, 3, sharey=True)
    everyone = Windowed.of(False, False, False).truth.scores
    for ax, one, title in zip(axes, (first, later), ("before any DFT", f"after {LEARNT} DFT answers"), strict=False):
        ax.axhspan(*WINDOW, color=C["hit"], alpha=0.18, linewidth=0)
        ax.fill_between(one.x, one.mean - 2 * one.sd, one.mean + 2 * one.sd, color=C["passed"], alpha=0.2, linewidth=0)
        ax.plot(*everyone.T, ".", color=C["waiting"], markersize=2, alpha=0.6, markeredgewidth=0, zorder=1)
        ax.plot(one.x, one.mean, color=C["passed"], linewidth=2.2)
        ax.plot(one.gfn2, one.dft, "o", color=C["ink"], markersize=5.5, markeredgecolor=C["surface"])
        ax.set_title(title, fontsize=11.5, loc="left")
        ax.set_xlabel("GFN2 gap, eV: known for all")
        ax.set_xlim(0, 13)
    axes[0].set_ylabel("DFT gap, eV")
    axes[0].set_ylim(2, 12)
    for edge in GATE:
        axes[0].axvline(edge, 0, 0.9, color=C["failed"], linewidth=1.2, linestyle=(0, (4, 3)))
    axes[0].text(GATE[1] + 0.2, 2.3, "the gate", color=C["failed"])
    axes[0].text(12.8, WINDOW[0] - 0.1, "wanted", color=C["hit"], ha="right", va="top", fontweight="bold")
    axes[0].text(0.3, 11.8, "what the gate says", color=C["passed"], va="top")
    axes[1].text(0.3, 11.8, "what the answers say; band 95 %", color=C["passed"], va="top")
    last = axes[2]
    last.axhspan(*WINDOW, color=C["hit"], alpha=0.18, linewidth=0)
    y = np.linspace(2, 12, 400)
    shades, lines, lifts = (C["muted"], C["passed"], C["failed"]), ("--", "-", "-."), (1.9, 0.0, 0.0)
    heights = [1 / (one.sd * np.sqrt(2 * np.pi)) for one in candidates]
    for molecule, line, colour, lift, height in zip(candidates, lines, shades, lifts, heights, strict=True):
        density = height * np.exp(-(((y - molecule.mean) / molecule.sd) ** 2) / 2)
        last.plot(density, y, line, color=colour, linewidth=2)
        last.fill_betweenx(y, 0, density, color=colour, alpha=0.08, linewidth=0)
        where = "before GFN2" if molecule.gfn2 is None else f"GFN2 says {molecule.gfn2:.1f} eV"
        text = f"{where}:\n{percent(molecule.chance)} in the window"
        last.text(height + 0.03 * max(heights), molecule.mean + lift, text, color=colour, va="center", fontsize=10)
    last.set_xlim(0, 2.3 * max(heights))
    last.set_xticks([])
    last.spines["bottom"].set_visible(False)
    last.set_title("two molecules", fontsize=11.5, loc="left")
    last.set_xlabel("how likely")
    made.savefig(path, dpi=130)


def draw_price(path: Path) -> None:
    from matplotlib.ticker import NullFormatter

    made, axes = panels(10.6, 4.7, 2, sharey=True)
    ends = float(ndtri(0.0008)), float(ndtri(0.975))
    u = np.array([at for at in U if ends[0] <= at <= ends[1]])
    low = 0.0015
    titles = (
        "a rung at 5 % of the terminal cost,\nit tells 60 % of the variance",
        "a rung at 30 % of the terminal cost,\nit tells 20 % of the variance",
    )
    words: list[list[tuple[float, float, str, str]]] = [
        [(-2.3, 0.45, "leave", "muted"), (-0.75, 0.02, "buy the rung", "passed"), (0.95, 0.006, "verify", "hit")],
        [(-2.3, 0.45, "leave", "muted"), (0.4, 0.02, "verify", "hit")],
    ]
    for ax, (cost, tells), title, said in zip(axes, (USEFUL, POOR), titles, words, strict=True):
        one = programme(cost, tells)
        index = one.index(u)
        prices, verified = _verified(one, low)
        ax.fill_between(u, low, index, facecolor="#d3e3f4", edgecolor="#9dbfe2", hatch="//", linewidth=0)
        ax.fill_betweenx(prices, verified, ends[1], color="#cfe8db", linewidth=0, where=verified < ends[1])
        ax.fill_between(u, index, 1, color="#eef0f3", linewidth=0)
        ax.plot(u, index, color=C["ink"], linewidth=2.2)
        ax.axhline(PRICE, color=C["failed"], linewidth=1.6, linestyle=(0, (5, 3)))
        for name, chance in CHANCES.items():
            (at, does), x = verdict(one, chance), float(ndtri(chance))
            ax.plot([x, x], [low, max(at, PRICE)], color=C["ink"], linewidth=0.9, linestyle=":")
            ax.plot(x, at, "o", color=C["ink"], markersize=8, markeredgecolor=C["surface"], zorder=3)
            ax.text(x - 0.08, at * 1.1, name, ha="right", va="bottom", fontweight="bold", fontsize=12)
            mark = {"leave": "x", "buy": "s", "verify": "^"}[does]
            ax.plot(
                x, PRICE, mark, color=C["failed"], markersize=9, zorder=3, markeredgewidth=2.4 if mark == "x" else 0
            )
        for x, y, text, colour in said:
            box = {"facecolor": C["surface"], "edgecolor": "none", "alpha": 0.85, "boxstyle": "round,pad=0.25"}
            ax.text(x, y, text, color=C[colour], fontsize=12, fontweight="bold", ha="center", bbox=box)
        ax.text(ends[1] - 0.05, PRICE * 1.08, "price", color=C["failed"], ha="right", va="bottom", fontweight="bold")
        ax.set_yscale("log")
        ax.set_xlim(*ends)
        ax.set_ylim(low, 1)
        marks = (0.001, 0.01, 0.1, 0.3, 0.5, 0.9)
        ax.set_xticks([float(ndtri(m)) for m in marks], [f"{100 * m:g} %" for m in marks])
        ax.set_yticks([0.003, 0.01, 0.03, 0.1, 0.3, 1.0], ["0.003", "0.01", "0.03", "0.1", "0.3", "1"])
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.set_xlabel("expected chance of a hit, as of now")
        ax.set_title(title, fontsize=11.5, loc="left")
    axes[0].set_ylabel("index and price:\nhits for the cost of one verification")
    made.savefig(path, dpi=130)


def _verified(one: Programme, low: float) -> tuple[Array, Array]:
    """Prices, and the u from which on a candidate is verified at each: on the index where the rung is not bought."""
    columns = np.array([column for column, price in enumerate(PRICES) if low / 2 <= price < 1])
    prices, begins = PRICES[columns], one.begins[columns]
    terminal = (one.best == TERMINAL)[:, columns]
    bought = (one.best == 0)[:, columns].any(0)
    first = U[terminal.argmax(0)] - (U[1] - U[0]) / 2
    return prices, np.where(bought, first, begins)


def draw_recall(path: Path) -> None:
    made, axes = panels(10.6, 4.1, 2, sharey=True)
    shades = ("hit", "failed", "passed", "refused")
    styles = (("-", "o"), ("--", "s"), ("-.", "D"), (":", "^"))
    for ax, (name, (goal, words)) in zip(axes, GOALS.items(), strict=True):
        runs, marks = curves(goal), stored(name)
        ends = {one: int(np.argmax(run.recall >= max(MARKS))) + 1 for one, run in runs.items()}
        for place, one in enumerate(COMPARED):
            line, marker = styles[place]
            colour = C[shades[place]]
            ax.step(
                100 * runs[one].spent[: ends[one]],
                100 * runs[one].recall[: ends[one]],
                line,
                where="post",
                color=colour,
                linewidth=2.6 if one == "priced" else 1.8,
                zorder=3 if one == "priced" else 2,
            )
            ax.plot(
                [100 * cost for cost in marks[one].values()],
                [100 * at for at in marks[one]],
                marker,
                color=colour,
                markersize=7,
                markeredgecolor=C["surface"],
                zorder=4,
                linestyle="none",
            )
            if ax is axes[0]:
                ax.plot([], [], line, marker=marker, color=colour, linewidth=2, markersize=7, label=one)
        ax.set_xscale("log")
        ax.set_xlim(0.5, 25)
        ax.set_xticks([0.5, 1, 2, 5, 10, 20], ["0.5", "1", "2", "5", "10", "20"])
        ax.minorticks_off()
        ax.set_ylim(0, 100)
        ax.set_xlabel("cost, % of DFT for all")
        ax.set_title(f"the 1 % with {words}", fontsize=11.5, loc="left")
        ax.grid(True)
    axes[0].set_ylabel("hits found, %")
    made.legend(loc="outside upper center", ncols=4)
    made.savefig(path, dpi=130)


def percent(chance: float) -> str:
    return f"{100 * chance:.0f} %" if chance >= 0.01 else f"{100 * chance:.1f} %" if chance >= 0.001 else "under 0.1 %"


PICTURES = {"scheduling_law": draw_law, "scheduling_price": draw_price, "scheduling_recall": draw_recall}


def priced_examples() -> dict[str, list[Any]]:
    """By candidate: its chance, then its index and what is done with it, with the useful rung and with the poor one."""
    both = programme(*USEFUL), programme(*POOR)
    rows = {}
    for name, chance in CHANCES.items():
        said = [verdict(one, chance) for one in both]
        rows[name] = [chance, *(x for index, does in said for x in (round(index, 3), does))]
    return rows


def figures() -> dict[str, Any]:
    """What the page says of the pictures."""
    molecules = [[one.gfn2 and round(one.gfn2, 1), percent(one.chance)] for one in beliefs()[1]]
    lost = Windowed.of(False, True, False).lost
    return {"law": molecules, "price": priced_examples(), "early": found_early(), "lost to the gate": lost}


def main() -> None:
    import matplotlib

    with matplotlib.rc_context(settings()):
        for name, draw in PICTURES.items():
            draw(ROOT / "docs" / f"{name}.png")
    FIGURES.write_text(json.dumps(figures(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
