"""The structures of a chemical system; a run is a campaign whose answers are read from the ledger."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from sciagent.api.campaign import Campaign, LedgerView
from sciagent.chemistry.crystals.prototypes_and_same_structures import crystal_from_shorthand
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.errors import UsageError
from sciagent_bench.made import system_runs
from sciagent_bench.made.discovery_figures import RANDOM
from sciagent_bench.made.system_runs import DATABASE, GIVEN, MAX_SITES, PROPOSERS, ChemicalSystem, SystemRuns
from sciagent_simulators.potentials.competing_prototypes import BINARIES

MODEL = "chgnet-0.3.0"


def test_the_given_phases_are_those_that_the_oracle_compares_with() -> None:
    assert GIVEN == BINARIES
    given = ChemicalSystem.of("V-Al-Li").given
    assert len(given) == 3 * len(BINARIES)
    assert "CdI2: Li Al" in given  # lithium is the more electropositive one


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Al-Xx", '"Xx" is not an element; a system is written as Al-Li-V'),
        ("Al", "2 to 5 different elements"),
        ("Al-Al", "2 to 5 different elements"),
        ("Al-Li-V-Cr-Mn-Fe", "2 to 5 different elements"),
        ("Al Li", '"Al Li" is not an element'),
    ],
)
def test_a_text_that_is_no_system_is_refused(text: str, fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        ChemicalSystem.of(text)


def test_a_system_is_the_same_in_any_order() -> None:
    assert ChemicalSystem.of("V-Al-Li") == ChemicalSystem.of("Al-Li-V")
    assert ChemicalSystem.of("V-Al-Li").name == "Al-Li-V"


def test_a_lot_has_small_cells_that_are_not_given_and_goes_on_with_edits(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: system_runs.prototypes()[name] for name in ("CsCl", "MoSi2", "stibnite")}
    monkeypatch.setattr(system_runs, "prototypes", lambda: few)
    system = ChemicalSystem.of("Al-Li")
    texts = list(islice(system.lot(1), 6))
    assert sorted(texts[:2]) == ["MoSi2: Al Li", "MoSi2: Li Al"]  # CsCl is given, stibnite has 20 atoms
    read = [subject_of("crystal").read(text) for text in texts]
    assert len({crystal.key for crystal in read} | {crystal_from_shorthand("CsCl: Al Li").key}) == 7
    assert all(crystal.n_atoms <= MAX_SITES and set(crystal.species) == {"Al", "Li"} for crystal in read)
    assert list(islice(system.lot(1), 6)) == texts


@pytest.mark.long
def test_runs_reuse_the_given_phases_and_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_runs, "START", 2)
    system = ChemicalSystem.of("K-Na")
    runs = SystemRuns(tmp_path / "made", MODEL, calls=4)
    given = runs.given(system)
    assert len(given) == 10
    assert all(abs(phase.formation_energy or 0) < 1 for phase in given)
    found = [runs.run(system, name, PROPOSERS[name], 1) for name in (RANDOM, "evolve")]
    assert [len(run.curve.counts) for run in found] == [4, 4]
    assert found[0].curve.counts[:2] == found[1].curve.counts[:2]  # the first calls are the same
    with LedgerView(tmp_path / "made" / DATABASE) as ledger:
        evolve = Campaign.open(found[1].campaign, ledger)
        assert len(list(evolve.candidates())) == 14
        paid = [value for value in evolve.evidence("formation_energy") if value.campaign == found[1].campaign]
        assert len(paid) <= 2
    monkeypatch.setattr("sciagent.api.campaign.Campaign.run", lambda *_, **__: pytest.fail("it has ended"))
    again = SystemRuns(tmp_path / "made", MODEL, calls=4)
    assert [again.run(system, name, PROPOSERS[name], 1) for name in (RANDOM, "evolve")] == found
