"""CHGNet as a potential: one graph for all cells of a batch, and one backward pass for forces and stresses.

CHGNet's own batches differentiate twice, loop over the cells for every bond, and make an object for each bond.

Source: Deng et al., Nat. Mach. Intell. 5, 1031 (2023), doi 10.1038/s42256-023-00716-3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sciagent_simulators.potentials.chgnet_graph import BatchGraph, batch_graph
from sciagent_simulators.potentials.chgnet_layers import Layers
from sciagent_simulators.potentials.elements import MPTRJ
from sciagent_simulators.potentials.potential import MP2020, ON_GPU, EnergyScale, PotentialFactory, PotentialValues

ON_CPU = 64  # atoms in a call: 32 cells of 4 atoms took 0.18 core-seconds with 64, 0.20 with 32, 0.21 with 128
CALL_SECONDS, ANGULAR_SECONDS, PART_SECONDS = 0.0085, 0.007, 1.7e-5
"""Core-seconds of an evaluation of one cell, besides if it has angles, and of each of its pairs and angles."""


@dataclass(frozen=True)
class Chgnet:
    """A loaded CHGNet."""

    model: Any
    scale: EnergyScale
    device: str
    layers: Layers
    """The layers of the model, as a batch is evaluated."""

    @property
    def atoms_at_once(self) -> int:
        return ON_CPU if self.device == "cpu" else ON_GPU

    def evaluate(self, batch: Sequence[Any]) -> Sequence[PotentialValues]:
        converter = self.model.graph_converter
        graph = batch_graph(batch, converter.atom_graph_cutoff, converter.bond_graph_cutoff, self.device)
        with _subnormal_numbers_as_zero():
            energies, forces, stresses = _evaluated(self.layers, graph)
        pairs, angles = (counts.cpu().numpy() for counts in graph.counts)
        seconds = CALL_SECONDS + ANGULAR_SECONDS * (angles > 0) + PART_SECONDS * (pairs + angles)
        ends = np.cumsum([len(atoms) for atoms in batch])[:-1]
        return [
            PotentialValues(float(energy), force, stress, float(alone))
            for energy, force, stress, alone in zip(energies, np.split(forces, ends), stresses, seconds, strict=True)
        ]


@contextmanager
def _subnormal_numbers_as_zero() -> Iterator[None]:
    """Numbers below 1e-38 are slow, and cut-off functions give many; afterwards they are numbers again."""
    import torch

    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def _evaluated(layers: Layers, graph: BatchGraph) -> tuple[Any, Any, Any]:
    """Returns energies (n, eV), forces (all atoms x 3, eV/angstrom) and stresses (n x 3 x 3, eV/angstrom**3)."""
    import torch

    lattices, positions = graph.lattices, graph.positions.clone().requires_grad_()
    strains = torch.zeros_like(lattices, requires_grad=True)
    deformed = torch.eye(3, device=lattices.device) + strains
    moved = torch.einsum("ni,nij->nj", positions, deformed[graph.owners])
    energies = layers.energies(graph, moved, lattices @ deformed)
    gradients = torch.autograd.grad(energies.sum(), (positions, strains))
    volumes = torch.linalg.det(lattices).abs()
    results = energies.detach(), -gradients[0], gradients[1] / volumes[:, None, None]
    return tuple(result.cpu().numpy().astype(float) for result in results)


def _make(version: str, scale: EnergyScale, weights: Path | None, device: str) -> Chgnet:
    from chgnet.model import CHGNet

    if weights is None:
        model = CHGNet.load(model_name=version, use_device=device, verbose=False)
    else:
        model = CHGNet.from_file(str(weights), mlp_out_bias=False).to(device)
    model = model.eval().requires_grad_(False)
    return Chgnet(model, scale, device, Layers.of(model))


def _factory(name: str, version: str, scale: EnergyScale) -> PotentialFactory:
    return PotentialFactory(name, scale, MPTRJ, partial(_make, version, scale), 0.0015, "chgnet")


CHGNET = _factory("chgnet-0.3.0", "0.3.0", EnergyScale("CHGNet-0.3.0", "PBE+U", MP2020))
CHGNET_R2SCAN = _factory("chgnet-r2scan", "r2scan", EnergyScale("CHGNet-r2SCAN", "r2SCAN"))
