"""CHGNet as a potential: one graph for all cells of a batch, each kind of bond and angle in it computed once.

The model gives derivatives by lengths and angles; forces and stresses follow from these. CHGNet's own batches
differentiate by positions and strains, loop over the cells for every bond, and make an object for each bond.

Source: Deng et al., Nat. Mach. Intell. 5, 1031 (2023), doi 10.1038/s42256-023-00716-3.

Its layers need a third of the arithmetic, for evaluation only; energies differ by rounding.

CHGNet gathers the features of two atoms and their bond for each pair of neighbours, or of two bonds, their angle and
their atom for each angle, and applies a linear layer to all of them in a row. The same sum is had by applying each part
of that layer to the atoms, bonds and angles first, which are fewer, and by gathering then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sciagent_simulators.potentials.chgnet_graph import BatchGraph, GraphKinds, KindGraph, batch_graph, kinds_of
from sciagent_simulators.potentials.known_phases import MPTRJ
from sciagent_simulators.potentials.potential import (
    MP2020,
    ON_GPU,
    EnergyScale,
    Numbers,
    PotentialFactory,
    PotentialValues,
)

Tensor = Any
Part = tuple[Tensor, Tensor | None]
"""Features (m, width), and for each message the row among them; None: a row for each message, in order."""


@dataclass(frozen=True)
class GatedLayer:
    """The gated perceptron of a convolution, with the first layers of core and gate cut by the parts of its input."""

    gated: Any
    """CHGNet's GatedMLP."""
    weights: Sequence[Tensor]
    """(width, core + gate) for each part."""
    bias: Tensor
    """(core + gate,)."""
    rests: tuple[Any, Any]
    """The layers of core and gate after the first one."""

    @classmethod
    def of(cls, gated: Any, widths: Sequence[int]) -> GatedLayer:
        """Returns the layer for parts of these widths, in their order."""
        import torch

        layers = [list(mlp.layers) for mlp in (gated.mlp_core, gated.mlp_gate)]
        places = [next(i for i, layer in enumerate(each) if isinstance(layer, torch.nn.Linear)) for each in layers]
        first = [each[place] for each, place in zip(layers, places, strict=True)]
        whole = torch.cat([layer.weight.detach() for layer in first])
        bias = torch.cat([layer.bias.detach() for layer in first])
        core, gate = (torch.nn.Sequential(*each[place + 1 :]) for each, place in zip(layers, places, strict=True))
        return cls(gated, [part.T.contiguous() for part in whole.split(list(widths), dim=1)], bias, (core, gate))

    def __call__(self, *parts: Part) -> Tensor:
        """Returns (n, width) the messages."""
        summed: Tensor = None
        for (features, rows), weight in zip(parts, self.weights, strict=True):
            product = features @ weight if summed is not None else features @ weight + self.bias
            product = product if rows is None else product.index_select(0, rows)
            summed = product if summed is None else summed.add_(product)
        core, gate = summed.chunk(2, dim=1)
        core = self.rests[0](core)
        gate = self.rests[1](gate)
        if self.gated.norm is not None:
            core = self.gated.bn1(core)
            gate = self.gated.bn2(gate)
        return self.gated.activation(core) * self.gated.sigmoid(gate)


@dataclass(frozen=True)
class Layers:
    """The convolutions of a loaded CHGNet."""

    model: Any
    atoms: Sequence[GatedLayer]
    bonds: Sequence[GatedLayer | None]
    angles: Sequence[GatedLayer | None]
    """Without that of the last layer, whose angles nothing uses."""

    @classmethod
    def of(cls, model: Any) -> Layers:
        """Returns the layers of a model in evaluation mode, on its device."""
        atom = model.atom_embedding.embedding.embedding_dim
        bond = model.bond_embedding.out_features
        corner = bond, bond, model.angle_embedding.out_features, atom
        bonds, angles = (
            [None if layer is None else GatedLayer.of(layer.twoBody_bond, corner) for layer in layers]
            for layers in (model.bond_conv_layers, model.angle_layers)
        )
        pairs = [GatedLayer.of(layer.twoBody_atom, (atom, bond, atom)) for layer in model.atom_conv_layers]
        return cls(model, pairs, [*bonds, None], [*angles[:-1], None, None])

    def energies(self, graph: KindGraph, lengths: Tensor, cosines: Tensor) -> Tensor:
        """Returns (cells,) energies in eV. lengths: (bonds,) angstrom; cosines: (angles,)."""
        import torch

        model = self.model
        radial = self.model.bond_basis_expansion
        expanded = radial.rbf_expansion_ag(lengths)
        atoms = model.atom_embedding(graph.numbers - 1)
        bonds = model.bond_embedding(expanded)
        pair_weights = model.bond_weights_ag(expanded).index_select(0, graph.bond_of) * graph.pair_counts[:, None]
        has_angles = len(graph.left) > 0
        if has_angles:
            cosines = cosines * (1 - 1e-6)  # as CHGNet does, since the arc of 1 has no derivative
            angles = model.angle_embedding(model.angle_basis_expansion.fourier_expansion(torch.acos(cosines)))
            near, places = torch.unique(torch.stack([graph.left, graph.right]), return_inverse=True)
            near_weights = model.bond_weights_bg(radial.rbf_expansion_bg(lengths.index_select(0, near)))
            corner_weights = near_weights.index_select(0, places[0]) * near_weights.index_select(0, places[1])
            corner_weights = corner_weights * graph.angle_counts[:, None]
        for number, (pair, bond, angle) in enumerate(zip(self.atoms, self.bonds, self.angles, strict=True)):
            messages = pair((atoms, graph.first), (bonds, graph.bond_of), (atoms, graph.second)) * pair_weights
            atoms = _updated(model.atom_conv_layers[number], atoms, messages, graph.first, "atom_norm")
            if has_angles and bond is not None:
                messages = bond(*_ends(bonds, near, places), (angles, None), (atoms, graph.centre)) * corner_weights
                bonds = _updated(model.bond_conv_layers[number], bonds, messages, graph.left, "bond_norm")
                if angle is not None:
                    layer = model.angle_layers[number]
                    change = angle(*_ends(bonds, near, places), (angles, None), (atoms, graph.centre))
                    angles = change + angles if layer.resnet else change
                    angles = angles if layer.angle_norm is None else layer.angle_norm(angles)
        return self._of_cells(graph, atoms)

    def _of_cells(self, graph: KindGraph, atoms: Tensor) -> Tensor:
        """Returns (cells,) energies, with those of the elements, from the features of the atoms."""
        model = self.model
        sizes = graph.sizes
        atoms = atoms if model.readout_norm is None else model.readout_norm(atoms)
        if model.mlp_first:
            energies = graph.summed(model.mlp(atoms)).view(-1)
        else:
            energies = model.mlp(graph.summed(atoms) / sizes[:, None]).view(-1) * sizes
        reference = model.composition_model
        if reference is None:
            return energies
        amounts = energies.new_zeros(len(sizes), reference.max_num_elements)
        amounts.index_put_((graph.owners, graph.numbers - 1), graph.atom_counts, accumulate=True)
        if not reference.is_intensive:
            return energies + reference._get_energy(amounts)
        return energies + reference._get_energy(amounts / sizes[:, None]) * sizes


def _ends(bonds: Tensor, near: Tensor, places: Tensor) -> tuple[Part, Part]:
    """Returns the two bonds of each angle. near: rows of the bonds that belong to an angle; places: rows of those."""
    close = bonds.index_select(0, near)
    return (close, places[0]), (close, places[1])


def _updated(layer: Any, features: Tensor, messages: Tensor, owners: Tensor, norm: str) -> Tensor:
    """Returns the features after the messages to them have been added."""
    summed = features.new_zeros(features.shape).index_add(0, owners, messages)
    summed = layer.mlp_out(summed) if layer.use_mlp_out else summed
    summed = summed + features if layer.resnet else summed
    normalised = getattr(layer, norm)
    return summed if normalised is None else normalised(summed)


ON_CPU = 64
"""Atoms in a call. 32 cells without symmetry took 0.17 core-seconds, with 128 atoms 0.20; prototypes 0.035, 0.025."""
CALL_SECONDS = 0.0062
ANGULAR_SECONDS = 0.0049
KIND_SECONDS = 1.0e-5
ANGLE_SECONDS = 2.3e-6
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
