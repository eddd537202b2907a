"""CHGNet as a potential: one graph for all cells of a batch, each kind of bond and angle in it computed once.

The model gives derivatives by lengths and angles; forces and stresses follow from these. CHGNet's own batches
differentiate by positions and strains, loop over the cells for every bond, and make an object for each bond.

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
from sciagent_simulators.potentials.chgnet_kinds import GraphKinds, KindGraph, kinds_of
from sciagent_simulators.potentials.chgnet_layers import Layers
from sciagent_simulators.potentials.elements import MPTRJ
from sciagent_simulators.potentials.potential import (
    MP2020,
    ON_GPU,
    EnergyScale,
    Numbers,
    PotentialFactory,
    PotentialValues,
)

ON_CPU = 64
"""Atoms in a call. 32 cells without symmetry took 0.17 core-seconds, with 128 atoms 0.20; prototypes 0.035, 0.025."""
CALL_SECONDS, ANGULAR_SECONDS, KIND_SECONDS, ANGLE_SECONDS = 0.0062, 0.0049, 1.0e-5, 2.3e-6
"""Core-seconds of an evaluation of one cell, besides if it has angles, of each kind of its pairs and angles, and of
each angle; fitted to single verifications of benchmarks/crystals, with and without symmetry."""


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
        graph = batch_graph(batch, converter.atom_graph_cutoff, converter.bond_graph_cutoff)
        kinds = kinds_of(graph)
        with _subnormal_numbers_as_zero():
            energies, forces, by_strain = self._evaluated(graph, kinds)
        stresses = by_strain / np.abs(np.linalg.det([atoms.cell.array for atoms in batch]))[:, None, None]
        counted = (*kinds.owners(graph), graph.owners[graph.first[graph.left]])
        pairs, angles, all_angles = (np.bincount(owners, minlength=len(batch)) for owners in counted)
        seconds = CALL_SECONDS + ANGULAR_SECONDS * (angles > 0) + KIND_SECONDS * (pairs + angles)
        seconds += ANGLE_SECONDS * all_angles
        ends = np.cumsum([len(atoms) for atoms in batch])[:-1]
        return [
            PotentialValues(float(energy), force, stress, float(alone))
            for energy, force, stress, alone in zip(energies, np.split(forces, ends), stresses, seconds, strict=True)
        ]

    def _evaluated(self, graph: BatchGraph, kinds: GraphKinds) -> tuple[Numbers, Numbers, Numbers]:
        """Returns energies (cells, eV), forces (atoms, 3, eV/angstrom) and derivatives by strain (cells, 3, 3, eV)."""
        import torch

        means = kinds.bonds.mean(graph.lengths[graph.pair_of]), kinds.angles.mean(graph.cosines)
        lengths, cosines = (
            torch.from_numpy(values.astype(np.float32)).to(self.device).requires_grad_() for values in means
        )
        energies = self.layers.energies(KindGraph.of(graph, kinds, self.device), lengths, cosines)
        slopes = torch.autograd.grad(energies.sum(), (lengths, cosines), materialize_grads=True)
        by_length, by_cosine = (slope.cpu().numpy().astype(float) for slope in slopes)
        forces, by_strain = graph.forces_and_strain_derivatives(
            kinds.bonds.shared(by_length), kinds.angles.shared(by_cosine)
        )
        return energies.detach().cpu().numpy().astype(float), forces, by_strain


@contextmanager
def _subnormal_numbers_as_zero() -> Iterator[None]:
    """Numbers below 1e-38 are slow, and cut-off functions give many; afterwards they are numbers again."""
    import torch

    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


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
