"""SevenNet as a potential: the graphs of all cells of a batch are one graph.

Names that the package does not contain would be downloaded, so only those in its wheel are offered.

Source: Park, Kim, Hwang, Han, J. Chem. Theory Comput. 20, 4857 (2024), doi 10.1021/acs.jctc.4c00190.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sciagent_simulators.potentials.potential_base_and_registry import (
    MAX_ATOMS_ON_CPU,
    MAX_ATOMS_ON_GPU,
    EnergyScale,
    PotentialFactory,
    PotentialValues,
)
from sciagent_simulators.potentials.relaxed_phases_and_hull import MPTRJ

CALL_SECONDS = 0.029
"""Core-seconds of an evaluation of one cell by 7net-0. This number and the next one were fitted to 32 cells of 2 to 8
atoms."""
PAIR_SECONDS = 2.4e-4
"""Core-seconds of each of the cell's pairs of neighbours by 7net-0."""
VOIGT = np.array([[0, 3, 5], [3, 1, 4], [5, 4, 2]])
"""3 x 3: which of SevenNet's six stresses, in the order xx, yy, zz, xy, yz, zx, is each element of the tensor."""


@dataclass(frozen=True)
class SevenNet:
    """A loaded SevenNet."""

    model: Any
    scale: EnergyScale
    device: str
    head: int | None
    """Number of the data set whose functional is predicted, for models with several heads."""

    @property
    def atoms_at_once(self) -> int:
        return MAX_ATOMS_ON_CPU if self.device == "cpu" else MAX_ATOMS_ON_GPU

    def evaluate(self, batch: Sequence[Any]) -> Sequence[PotentialValues]:
        import sevenn._keys as keys

        graph = self._graph(batch)
        centres = graph[keys.EDGE_IDX][0]
        n_pairs = graph[keys.BATCH][centres].bincount(minlength=len(batch)).cpu().numpy()
        seconds = CALL_SECONDS + PAIR_SECONDS * n_pairs.astype(float)
        output = self.model(graph)
        energies, forces, stresses = (
            output[key].detach().cpu().numpy().astype(float)
            for key in (keys.PRED_TOTAL_ENERGY, keys.PRED_FORCE, keys.PRED_STRESS)
        )
        ends = np.cumsum([len(atoms) for atoms in batch])[:-1]
        cells = zip(energies.reshape(-1), np.split(forces, ends), stresses.reshape(-1, 6), seconds, strict=True)
        # SevenNet's stress is positive under pressure
        return [
            PotentialValues(float(energy), forces=force, stress=-stress[VOIGT], seconds=float(seconds_alone))
            for energy, force, stress, seconds_alone in cells
        ]

    def _graph(self, batch: Sequence[Any]) -> Mapping[str, Any]:
        """Returns the graph of all cells as SevenNet names its parts."""
        import sevenn._keys as keys
        import torch
        from matscipy.neighbours import neighbour_list

        edges = []
        vectors = []
        n_atoms_before = 0
        for atoms in batch:
            # "ijD": indices of both atoms of each pair, and the vector from the first to the second
            centres, neighbours, cell_vectors = neighbour_list("ijD", atoms, cutoff=float(self.model.cutoff))
            edges.append(np.array([centres, neighbours], dtype=np.int64) + n_atoms_before)
            vectors.append(cell_vectors)
            n_atoms_before += len(atoms)
        atomic_numbers = torch.from_numpy(np.concatenate([atoms.numbers for atoms in batch]).astype(np.int64))
        sizes = torch.tensor([len(atoms) for atoms in batch])
        graph = {
            keys.NODE_FEATURE: atomic_numbers,
            keys.ATOMIC_NUMBERS: atomic_numbers,
            keys.POS: torch.tensor(np.concatenate([atoms.positions for atoms in batch]), dtype=torch.float32),
            keys.EDGE_IDX: torch.from_numpy(np.concatenate(edges, axis=1)),
            keys.EDGE_VEC: torch.tensor(np.concatenate(vectors), dtype=torch.float32),
            keys.CELL_VOLUME: torch.tensor([atoms.cell.volume for atoms in batch], dtype=torch.float32),
            keys.NUM_ATOMS: sizes,
            keys.BATCH: torch.repeat_interleave(torch.arange(len(batch)), sizes),
        }
        if self.head is not None:
            graph[keys.MODAL_TYPE] = torch.full((len(batch),), self.head)
        return {name: part.to(self.device) for name, part in graph.items()}


def _make(shipped: str, head: str | None, scale: EnergyScale, weights: Path | None, device: str) -> SevenNet:
    """Returns the loaded model, ready for batches.

    shipped: name of the weights in SevenNet's package, used without `weights`. head: name of the data set whose
    functional is predicted, for models with several heads."""
    import torch
    from sevenn.util import load_checkpoint

    model = load_checkpoint(str(weights or shipped)).build_model()
    model.eval_type_map = torch.tensor(True)  # the graph has atomic numbers, which the model replaces by its own
    model.set_is_batch_data(True)
    head_number = (model.modal_map or {}).get(head)
    model.eval_modal_map = False  # the graph has the number of the head, not its name
    return SevenNet(model.to(device).eval().requires_grad_(False), scale, device, head_number)


def _factory(name: str, shipped: str, scale: EnergyScale, seconds: float, head: str | None = None) -> PotentialFactory:
    """Returns the factory of one model. shipped, head: as for `_make`. seconds: as in PotentialFactory."""
    return PotentialFactory(
        name=name,
        scale=scale,
        elements=MPTRJ,
        make=partial(_make, shipped, head, scale),
        seconds=seconds,
        package="sevenn",
    )


SEVENNET_0 = _factory("7net-0", shipped="7net-0", scale=EnergyScale("7net-0", functional="PBE+U"), seconds=0.01)
SEVENNET_L3I5 = _factory(
    "7net-l3i5", shipped="7net-l3i5", scale=EnergyScale("7net-l3i5", functional="PBE+U"), seconds=0.03
)
SEVENNET_MF_PBE = _factory(
    "7net-mf-0-pbe",
    shipped="7net-mf-0",
    scale=EnergyScale("7net-mf-0-PBE", functional="PBE+U"),
    seconds=0.01,
    head="PBE",
)
SEVENNET_MF_R2SCAN = _factory(
    "7net-mf-0-r2scan",
    shipped="7net-mf-0",
    scale=EnergyScale("7net-mf-0-R2SCAN", functional="r2SCAN"),
    seconds=0.01,
    head="R2SCAN",
)
