"""The chances of candidates to be hits, by a law of the answers so far."""

from __future__ import annotations

import numpy as np
from rdkit.Chem import Crippen

from sciagent.agent.proposers.hit_chances import FEWEST, MOST, MOST_ASKED, HitChances, _best_and_latest, limits_of
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.objectives import Direction, Objective, Window
from sciagent.domain.proposer_interfaces import MeasuredCandidate, PastFit, PastProperty
from sciagent.scheduling.law.left_out_calibration import CENTRES, SimilarityBin, WidthCalibration
from sciagent.scheduling.law.structure_process import ComparedStructures, StructureMemory, fitted_memory
from tests.support.subjects import MOLECULES
from tests.support.worths import worth

WANTED = Objective("logp", Direction.WINDOW, Window(2.9, 3.1))
ENDS = ("O", "N", "Cl", "C#N", "C=O", "c1ccccc1", "S", "F")


def measured(smiles: str, seq: int = 0) -> MeasuredCandidate:
    """Returns a molecule with its logP by Crippen."""
    value = float(Crippen.MolLogP(parse_molecule(smiles).mol))
    return MeasuredCandidate(smiles, worth(0.5), seq, {"logp": value}, smiles)


KNOWN = [measured("C" * n + end, n) for n in range(1, 6) for end in ENDS]


def fitted_memory_of(past: dict[str, float]) -> StructureMemory:
    """Returns the memory of values by SMILES."""
    compared = ComparedStructures()
    compared.add([MOLECULES.structure(text) for text in sorted(past)])
    return fitted_memory(compared, np.array([past[text] for text in sorted(past)]))


def test_the_chance_falls_with_the_distance_from_the_window() -> None:
    chances = HitChances(MOLECULES, [WANTED])
    near, far, farther = chances.log_chances(KNOWN, ["CCCCCCCCO", "CCCCCO", "CO"])
    assert near > far > farther
    assert not chances.log_chances(KNOWN[: FEWEST - 1], ["CCO", "CCN"]).any() and not chances.is_informed(KNOWN[:2])


def test_a_chance_depends_on_the_answers_alone_and_not_on_what_was_asked_before() -> None:
    texts = ["C" * n + end for n in range(6, 9) for end in ENDS]
    together = HitChances(MOLECULES, [WANTED]).log_chances(KNOWN, texts)
    one_by_one = HitChances(MOLECULES, [WANTED])
    one_by_one.log_chances(KNOWN[:20], texts)
    apart = np.concatenate([one_by_one.log_chances(KNOWN, [text]) for text in texts])
    assert np.allclose(apart, together, atol=2e-6)
    for _ in range(1 + MOST_ASKED // len(texts)):  # more than are kept beside the answers
        again = one_by_one.log_chances(KNOWN, texts)
    assert np.allclose(again, together, atol=2e-6)


def test_a_past_is_the_prior_also_of_what_is_asked_later() -> None:
    past = {each.text: each.values["logp"] for each in KNOWN}
    texts = ["CCCCCCCCO", "CCCCCO", "CO"]
    chances = HitChances(MOLECULES, [WANTED])
    chances.remember({"logp": PastProperty(past, None)})
    assert chances.is_informed([]) and chances.is_remembered(KNOWN[0].text) and not chances.is_remembered(texts[0])
    together = chances.log_chances([], texts)
    assert together[0] > together[1] > together[2]
    apart = [float(chances.log_chances([], [text])[0]) for text in texts]
    assert np.allclose(apart, together, atol=2e-6)


def test_a_past_stays_although_chosen_answers_alone_foretell_each_other_closely() -> None:
    chosen = [each for each in KNOWN if abs(each.values["logp"] - 2.0) < 0.5]
    others = ["C" * n + end for n in (6, 7, 8) for end in ENDS]
    past = PastProperty({each.text: each.values["logp"] for each in KNOWN if each not in chosen}, None)
    wanted = Objective("logp", Direction.WINDOW, Window(1.5, 2.5))
    alone, both = HitChances(MOLECULES, [wanted]), HitChances(MOLECULES, [wanted])
    both.remember({"logp": past})
    said = [np.exp(chances.log_chances(chosen, others)).mean() for chances in (alone, both)]
    real = np.mean([1.5 <= measured(text).values["logp"] <= 2.5 for text in others])
    assert len(chosen) >= 8 and abs(said[1] - real) < 0.2 and said[0] - real > 0.4


def test_the_widths_that_a_law_entry_has_learnt_make_the_chance() -> None:
    past = {each.text: each.values["logp"] for each in KNOWN}
    memory = fitted_memory_of(past)
    said = {}
    around = Window(past["CCCO"] - 0.05, past["CCCO"] + 0.05)
    for factor in (0.5, 1.0, 2.0):
        widths = WidthCalibration(2, 40, 0.9, 0.1, 4.0, (SimilarityBin(0.0, 1.0, 40, factor, 0.9, 0.1),) * len(CENTRES))
        fit = PastFit(str(memory.fresh.transform), memory.fresh.log_hyper.tolist(), widths.as_json())
        chances = HitChances(MOLECULES, [Objective("logp", Direction.WINDOW, around)])
        chances.remember({"logp": PastProperty(past, fit)})
        said[factor] = float(np.exp(chances.log_chances([], ["CCCO"])[0]))
    assert said[0.5] > said[1.0] > said[2.0] > 0


def test_a_stereoisomer_of_a_measured_molecule_is_its_twin() -> None:
    known = [*KNOWN, measured("C/C=C/CO", 99)]
    chances = HitChances(MOLECULES, [WANTED])
    chances.remember({"logp": PastProperty({"C[C@H](F)CO": 1.0, "CCC[C@H](F)Cl": 2.0}, None)})
    texts = ["C/C=C\\CO", "C/C=C/CO", "CC=CCCO", "C[C@@H](F)CO", "C[C@H](F)CO"]
    assert chances.has_twin(known, texts).tolist() == [True, True, False, False, False]
    chances.remember({"logp": PastProperty(dict.fromkeys((f"{'C' * n}[C@H](F)CO" for n in range(1, 30)), 1.0), None)})
    assert chances.has_twin(known, texts).tolist() == [True, True, False, True, False]
    assert not chances.has_twin([], []).size


def test_an_objective_without_limits_plays_no_part_before_there_are_own_answers() -> None:
    chances = HitChances(MOLECULES, [Objective("logp", Direction.MAXIMISE)])
    chances.remember({"logp": PastProperty({each.text: each.values["logp"] for each in KNOWN}, None)})
    assert not chances.is_informed([]) and not chances.log_chances([], ["CCO"]).any()
    assert chances.is_informed(KNOWN[:FEWEST])


def test_an_objective_without_limits_wants_what_is_better_than_the_best() -> None:
    values = np.arange(40.0)
    assert limits_of(Objective("logp", Direction.MAXIMISE), values) == (32.0, np.inf)
    assert limits_of(Objective("logp", Direction.MINIMISE), values) == (-np.inf, 7.0)
    assert limits_of(Objective("logp", Direction.MAXIMISE), values[:9]) == (6.0, np.inf), "the best quarter of few"
    assert limits_of(Objective("logp", Direction.LIMIT, Window(None, 2.0)), values) == (-np.inf, 2.0)


def test_a_large_campaign_is_fitted_to_a_bounded_number_of_answers() -> None:
    known = [MeasuredCandidate(f"C{n}", worth(0.5), n % 1777, {"logp": 1.0}, str(n)) for n in range(3 * MOST)]
    chosen = _best_and_latest(known)
    assert len(chosen) == MOST and chosen[: MOST // 2] == known[: MOST // 2]
    rest = known[MOST // 2 :]
    assert min(each.seq for each in chosen[MOST // 2 :]) >= sorted(each.seq for each in rest)[-MOST // 2]
