"""Self-diffusion of TIP3P water by the pieces of `md.liquid`, beside published values of the same model:

    python -m benchmarks.md.water --folder FOLDER

512 waters at the model's density, three replicas of 20 ps of equilibration and 100 ps of production with hardly any
thermostat: some 15 core-minutes. The value is corrected for the size of the box with the published viscosity of the
model. `water_rows.jsonl` gets a line at the end; a run that was stopped goes on from its files in FOLDER. `--table`
prints what is there beside water.csv.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.md.resumable_rows import append_row, chosen_options, rows_of, table_of
from sciagent_simulators.dynamics.chunks import ChunkPlace
from sciagent_simulators.dynamics.hydration import WATER_DENSITY
from sciagent_simulators.dynamics.liquid import DIFFUSION_FRICTION, STEPS, TIME_STEP
from sciagent_simulators.dynamics.openmm_chain import DynamicsSettings, OpenMMRun, final_positions_and_box
from sciagent_simulators.dynamics.structure_and_diffusion import (
    BoxFrames,
    corrected_for_box,
    mean_squared_displacement,
    molecule_centres,
    self_diffusion,
)
from sciagent_simulators.force_fields.molecule_parameters import MoleculeParameters, NonbondedRules
from sciagent_simulators.force_fields.openmm_system import Portion, build, openmm_water, rigid_water
from sciagent_simulators.force_fields.packed_box import edge_at_density

Array = NDArray[np.float64]

HERE = Path(__file__).parent
ROWS = HERE / "water_rows.jsonl"
KEY = "TIP3P 512 298.15 K"
SIDE = 8  # waters along an edge of the lattice that the runs start from
WATERS = SIDE**3
TEMPERATURE = 298.15  # K
CUTOFF = 0.9  # nm
VISCOSITY = 0.321e-3  # Pa s, of TIP3P: Gonzalez, Abascal, J. Chem. Phys. 132, 096101 (2010); not seen
REPLICAS = 3
EQUILIBRATION_CHUNKS = 2
PRODUCTION_CHUNKS = 10
FRAME_EVERY = 250  # steps; in twice as many a water may move by a quarter of the box


def lattice(water: MoleculeParameters, edge: float, seed: int) -> Array:
    """Returns waters on a simple cubic lattice, each turned at random, n x 3, angstrom."""
    random = np.random.default_rng(seed)
    [one] = rigid_water(water)
    places = np.stack(np.meshgrid(*3 * [np.arange(SIDE)], indexing="ij"), axis=-1).reshape(-1, 3) * edge / SIDE
    turned = []
    for place in places:
        rotation, triangle = np.linalg.qr(random.normal(size=(3, 3)))
        rotation *= np.sign(np.diag(triangle))
        turned.append(place + (one - one.mean(axis=0)) @ rotation.T)
    positions: Array = np.concatenate(turned)
    return positions


def displacement(water: MoleculeParameters, edge: float, replica: int, folder: Path) -> tuple[Array, float]:
    """Returns the mean squared displacement of the waters of a replica for each lag of frames, angstrom^2, and the mean
    temperature, K."""
    system = build([Portion(water, WATERS)], edge / 10).system
    box = np.full(3, edge)
    settings = DynamicsSettings(temperature=TEMPERATURE, time_step=TIME_STEP, steps=STEPS)
    start = lattice(water, edge, ChunkPlace(KEY, replica, 0).seed("lattice"))
    settling = OpenMMRun(system, start, settings, box).chain(
        folder / f"settling{replica}", f"{KEY} settling", replica, EQUILIBRATION_CHUNKS
    )
    settling.run()
    positions, _ = final_positions_and_box(settling.read(settling.length))
    settings = DynamicsSettings(
        temperature=TEMPERATURE,
        time_step=TIME_STEP,
        steps=STEPS,
        friction=DIFFUSION_FRICTION,
        sample_every=FRAME_EVERY,
        frame_every=FRAME_EVERY,
    )
    run = OpenMMRun(system, positions, settings, box, minimise=False)
    chain = run.chain(folder / f"moving{replica}", f"{KEY} moving", replica, PRODUCTION_CHUNKS)
    chain.run()
    samples = run.samples(chain)
    if samples.positions is None or samples.boxes is None:
        raise ValueError("the run has no frames")
    molecules = np.repeat(np.arange(WATERS), 3)
    frames = BoxFrames(samples.positions, samples.boxes, ("O", "H", "H") * WATERS, tuple(molecules.tolist()))
    centres = molecule_centres(frames, np.tile([atom.mass for atom in water.atoms], WATERS))
    return mean_squared_displacement(centres, np.ones(WATERS)), float(samples.temperature.mean())


def run(folder: Path) -> dict[str, Any]:
    """Returns the row: the coefficient in the box and for an infinite one, with uncertainties, m2/s."""
    rules = NonbondedRules(scale_coulomb=0.5, scale_lennard_jones=0.5, cutoff=CUTOFF, switch_width=0.0)
    water = openmm_water("tip3p.xml", rules)
    edge = 10 * edge_at_density([water.mass], [WATERS], WATER_DENSITY)
    began = time.process_time()
    replicas = [displacement(water, edge, replica, folder) for replica in range(REPLICAS)]
    in_box = self_diffusion([squares for squares, _ in replicas], FRAME_EVERY * TIME_STEP)
    corrected = corrected_for_box(in_box, TEMPERATURE, np.full(3, edge), VISCOSITY)
    return {
        "name": "TIP3P",
        "waters": WATERS,
        "edge_angstrom": round(edge, 3),
        "density_g_mL": WATER_DENSITY,
        "temperature_K": TEMPERATURE,
        "temperatures_of_replicas_K": [round(mean, 2) for _, mean in replicas],
        "in_the_box_m2_s": [in_box.uncorrected, in_box.uncertainty],
        "corrected_m2_s": [corrected.corrected, corrected.uncertainty],
        "viscosity_mPa_s": VISCOSITY * 1000,
        "replicas_m2_s": list(in_box.replicas),
        "exponents": list(in_box.exponents),
        "core_seconds_of_last_attempt": round(time.process_time() - began),
    }


def table() -> str:
    """The rows beside the published values, in 1e-9 m2/s."""
    lines = []
    for row in rows_of(ROWS):
        value, uncertainty = (number * 1e9 for number in row["corrected_m2_s"])
        inside = row["in_the_box_m2_s"][0] * 1e9
        lines.append(f"{row['name']}: {value:.2f} ± {uncertainty:.2f}, in the box of {row['waters']} {inside:.2f}")
    for row in table_of(HERE / "water.csv"):
        lines.append(f"{row['model']}: {row['self_diffusion_1e_9_m2_s']}, {row['source']}, {row['remark']}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    chosen = chosen_options(parser, table)
    if not rows_of(ROWS):
        append_row(ROWS, run(chosen.folder))


if __name__ == "__main__":
    main()
