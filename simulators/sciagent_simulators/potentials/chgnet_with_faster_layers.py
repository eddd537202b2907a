"""CHGNet as a potential: one graph for all cells of a batch, each kind of bond and angle in it computed once.

The model gives derivatives by lengths and angles; forces and stresses follow from them. CHGNet's own batches
differentiate by positions and strains, loop over the cells for every bond, and make an object for each bond.

Source: Deng et al., Nat. Mach. Intell. 5, 1031 (2023), doi 10.1038/s42256-023-00716-3.

The layers in this module (`Layers`, `GatedLayer`) need a third of the arithmetic of CHGNet's own layers. They serve for
evaluation only, not for training; energies differ by rounding.

For each pair of neighbours CHGNet gathers the features of two atoms and their bond; for each angle it gathers the
features of two bonds, the angle and the atom between them. Then it applies a linear layer to the gathered features in a
row. Here each part of this linear layer is applied to the atoms, bonds and angles first, which are fewer, and the
products are gathered and added. The sum is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sciagent_simulators.potentials.chgnet_graph_and_equivalent_atoms import (
    BatchGraph,
    GraphKinds,
    KindGraph,
    batch_graph,
    kinds_of,
)
from sciagent_simulators.potentials.potential_base_and_registry import (
    MAX_ATOMS_ON_GPU,
    MP2020,
    EnergyScale,
    Numbers,
    PotentialFactory,
    PotentialValues,
)
from sciagent_simulators.potentials.relaxed_phases_and_hull import MPTRJ

Tensor = Any
Part = tuple[Tensor, Tensor | None]
"""Features, (m, width), and for each message the row of its features. None for the rows: message k has row k."""


@dataclass(frozen=True)
class GatedLayer:
    """The gated perceptron of a convolution, with the first layers of core and gate cut by the parts of its input."""

    gated: Any
    """CHGNet's GatedMLP."""
    weights: Sequence[Tensor]
    """(width, core + gate) for each part."""
    bias: Tensor
    """(core + gate,)."""
    core_tail: Any
    """The layers of the core after its first linear one."""
    gate_tail: Any
    """The layers of the gate after its first linear one."""

    @classmethod
    def from_gated(cls, gated: Any, widths: Sequence[int]) -> GatedLayer:
        """Returns the layer for a GatedMLP of CHGNet whose input has parts of these widths, in their order."""
        import torch

        core, core_tail = _first_linear_and_tail(gated.mlp_core)
        gate, gate_tail = _first_linear_and_tail(gated.mlp_gate)
        weight = torch.cat([core.weight.detach(), gate.weight.detach()])
        bias = torch.cat([core.bias.detach(), gate.bias.detach()])
        weights = [part.T.contiguous() for part in weight.split(list(widths), dim=1)]
        return cls(gated, weights, bias, core_tail, gate_tail)

    def __call__(self, *parts: Part) -> Tensor:
        """Returns (n, width) the messages."""
        summed: Tensor = None
        for (features, rows), weight in zip(parts, self.weights, strict=True):
            product = features @ weight
            if summed is None:
                product = product + self.bias
            if rows is not None:
                product = product.index_select(0, rows)
            summed = product if summed is None else summed.add_(product)
        core, gate = summed.chunk(2, dim=1)
        core = self.core_tail(core)
        gate = self.gate_tail(gate)
        if self.gated.norm is not None:
            core = self.gated.bn1(core)
            gate = self.gated.bn2(gate)
        return self.gated.activation(core) * self.gated.sigmoid(gate)


def _first_linear_and_tail(mlp: Any) -> tuple[Any, Any]:
    """Returns the first linear layer of a multilayer perceptron of CHGNet, and all layers after it as one module."""
    import torch

    layers = list(mlp.layers)
    is_linear = [isinstance(layer, torch.nn.Linear) for layer in layers]
    first = is_linear.index(True)
    return layers[first], torch.nn.Sequential(*layers[first + 1 :])


@dataclass(frozen=True)
class Layers:
    """The convolutions of a loaded CHGNet. The entries k of the three lists are applied in turn, for each k."""

    model: Any
    atoms: Sequence[GatedLayer]
    """The layers that change the features of atoms."""
    bonds: Sequence[GatedLayer | None]
    """The layers that change the features of bonds; None where they stay. The last one is None."""
    angles: Sequence[GatedLayer | None]
    """The layers that change the features of angles; None where they stay.

    The last layer of CHGNet is left out, since nothing uses the angles after it."""

    @classmethod
    def from_model(cls, model: Any) -> Layers:
        """Returns the layers of a model in evaluation mode, on its device."""
        atom_width = model.atom_embedding.embedding.embedding_dim
        bond_width = model.bond_embedding.out_features
        pair_widths = (atom_width, bond_width, atom_width)
        corner_widths = (bond_width, bond_width, model.angle_embedding.out_features, atom_width)
        atoms = [GatedLayer.from_gated(layer.twoBody_atom, pair_widths) for layer in model.atom_conv_layers]
        bonds = _corner_layers(model.bond_conv_layers, corner_widths)
        angles = _corner_layers(model.angle_layers, corner_widths)
        bonds_by_turn = [*bonds, None]  # the last convolution changes atoms only
        angles_by_turn = [*angles[:-1], None, None]  # nothing uses the angles after their last layer
        return cls(model, atoms, bonds_by_turn, angles_by_turn)

    def energies(self, graph: KindGraph, lengths: Tensor, cosines: Tensor) -> Tensor:
        """Returns (cells,) energies in eV. lengths: (bonds,) angstrom; cosines: (angles,)."""
        import torch

        model = self.model
        radial = model.bond_basis_expansion
        expanded = radial.rbf_expansion_ag(lengths)
        atoms = model.atom_embedding(graph.numbers - 1)
        bonds = model.bond_embedding(expanded)
        pair_weights = model.bond_weights_ag(expanded).index_select(0, graph.bond_of) * graph.pair_counts[:, None]
        has_angles = len(graph.left) > 0
        if has_angles:
            cosines = cosines * (1 - 1e-6)  # as CHGNet does, since the arc of 1 has no derivative
            angles = model.angle_embedding(model.angle_basis_expansion.fourier_expansion(torch.acos(cosines)))
            # `near`: the bonds that belong to an angle; `places`: rows of the left and right bonds of angles in `near`
            near, places = torch.unique(torch.stack([graph.left, graph.right]), return_inverse=True)
            corner_weights = self._corner_weights(graph, lengths.index_select(0, near), places)
        convolutions = zip(self.atoms, self.bonds, self.angles, strict=True)
        for number, (atom_layer, bond_layer, angle_layer) in enumerate(convolutions):
            messages = atom_layer((atoms, graph.first), (bonds, graph.bond_of), (atoms, graph.second)) * pair_weights
            atoms = _updated(model.atom_conv_layers[number], atoms, messages, graph.first, "atom_norm")
            if not has_angles or bond_layer is None:
                continue
            left, right = _ends(bonds, near, places)
            messages = bond_layer(left, right, (angles, None), (atoms, graph.centre)) * corner_weights
            bonds = _updated(model.bond_conv_layers[number], bonds, messages, graph.left, "bond_norm")
            if angle_layer is None:
                continue
            original = model.angle_layers[number]
            left, right = _ends(bonds, near, places)
            change = angle_layer(left, right, (angles, None), (atoms, graph.centre))
            angles = change + angles if original.resnet else change
            if original.angle_norm is not None:
                angles = original.angle_norm(angles)
        return self._cell_energies(graph, atoms)

    def _corner_weights(self, graph: KindGraph, near_lengths: Tensor, places: Tensor) -> Tensor:
        """Returns the weights of the messages over angles, (angles, width): the product of the two bonds' weights.

        near_lengths: lengths of the bonds that belong to an angle, angstrom. places: (2, angles) rows in them."""
        near_weights = self.model.bond_weights_bg(self.model.bond_basis_expansion.rbf_expansion_bg(near_lengths))
        left_weights = near_weights.index_select(0, places[0])
        right_weights = near_weights.index_select(0, places[1])
        weights: Tensor = left_weights * right_weights
        return weights * graph.angle_counts[:, None]

    def _cell_energies(self, graph: KindGraph, atoms: Tensor) -> Tensor:
        """Returns (cells,) energies, including the reference energies of the elements, from the features of atoms."""
        model = self.model
        sizes = graph.sizes
        if model.readout_norm is not None:
            atoms = model.readout_norm(atoms)
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


def _corner_layers(layers: Sequence[Any], widths: Sequence[int]) -> list[GatedLayer | None]:
    """Returns the gated layers of CHGNet's convolutions over angles; None where CHGNet has none."""
    gated_layers: list[GatedLayer | None] = []
    for layer in layers:
        gated_layers.append(None if layer is None else GatedLayer.from_gated(layer.twoBody_bond, widths))
    return gated_layers


def _ends(bonds: Tensor, near: Tensor, places: Tensor) -> tuple[Part, Part]:
    """Returns the left and the right bond of each angle as parts of a layer's input.

    near: rows in `bonds` of the bonds that belong to an angle. places: (2, angles) rows in `near`."""
    close = bonds.index_select(0, near)
    return (close, places[0]), (close, places[1])


def _updated(layer: Any, features: Tensor, messages: Tensor, owners: Tensor, norm: str) -> Tensor:
    """Returns the features after a convolution of CHGNet has added the messages to them.

    owners: (messages,) the row of `features` to which each message goes. norm: the layer's attribute that normalises
    the result, or is None."""
    summed = features.new_zeros(features.shape).index_add(0, owners, messages)
    if layer.use_mlp_out:
        summed = layer.mlp_out(summed)
    if layer.resnet:
        summed = summed + features
    normalise = getattr(layer, norm)
    return summed if normalise is None else normalise(summed)


MAX_ATOMS_ON_CPU = 64
"""Largest number of atoms in a call on the CPU.

32 cells without symmetry took 0.17 core-seconds with 64 atoms in a call, and 0.20 with 128; 32 cells
of simple prototypes took 0.035 and 0.025."""
CALL_SECONDS = 0.0062
"""Core-seconds of an evaluation of one cell.

This number and the next three were fitted to single verifications of benchmarks/crystals, with and without symmetry."""
ANGULAR_SECONDS = 0.0049
"""Core-seconds that come on top if the cell has angles."""
KIND_SECONDS = 1.0e-5
"""Core-seconds of each kind of the cell's pairs and angles."""
ANGLE_SECONDS = 2.3e-6
"""Core-seconds of each of the cell's angles."""


@dataclass(frozen=True)
class Chgnet:
    """A loaded CHGNet."""

    model: Any
    scale: EnergyScale
    device: str
    """`cpu` or `cuda`."""
    layers: Layers
    """The layers of the model, by which a batch is evaluated."""

    @property
    def atoms_at_once(self) -> int:
        return MAX_ATOMS_ON_CPU if self.device == "cpu" else MAX_ATOMS_ON_GPU

    def evaluate(self, batch: Sequence[Any]) -> Sequence[PotentialValues]:
        converter = self.model.graph_converter
        graph = batch_graph(batch, converter.atom_graph_cutoff, converter.bond_graph_cutoff)
        kinds = kinds_of(graph)
        with _subnormal_numbers_as_zero():
            energies, forces, by_strain = self._evaluated(graph, kinds)
        volumes = np.abs(np.linalg.det([atoms.cell.array for atoms in batch]))
        stresses = by_strain / volumes[:, None, None]
        seconds = _core_seconds(graph, kinds)
        ends = np.cumsum([len(atoms) for atoms in batch])[:-1]  # rows at which the forces of the next cell begin
        forces_by_cell = np.split(forces, ends)
        return [
            PotentialValues(float(energy), cell_forces, stress, float(seconds_alone))
            for energy, cell_forces, stress, seconds_alone in zip(
                energies, forces_by_cell, stresses, seconds, strict=True
            )
        ]

    def _evaluated(self, graph: BatchGraph, kinds: GraphKinds) -> tuple[Numbers, Numbers, Numbers]:
        """Returns energies (cells, eV), forces (atoms, 3, eV/angstrom) and derivatives by strain (cells, 3, 3, eV)."""
        import torch

        lengths = self._variable(kinds.bonds.mean(graph.lengths[graph.pair_of]))
        cosines = self._variable(kinds.angles.mean(graph.cosines))
        kind_graph = KindGraph.from_graph(graph, kinds, self.device)
        energies = self.layers.energies(kind_graph, lengths, cosines)
        by_length, by_cosine = torch.autograd.grad(energies.sum(), (lengths, cosines), materialize_grads=True)
        # a kind's derivative is the sum over its members
        by_bond_length = kinds.bonds.shared(_doubles(by_length))
        by_angle_cosine = kinds.angles.shared(_doubles(by_cosine))
        forces, by_strain = graph.forces_and_strain_derivatives(by_bond_length, by_angle_cosine)
        return _doubles(energies.detach()), forces, by_strain

    def _variable(self, values: Numbers) -> Tensor:
        """Returns the values in single precision on the model's device; energies can be differentiated by them."""
        import torch

        return torch.from_numpy(values.astype(np.float32)).to(self.device).requires_grad_()


def _doubles(tensor: Tensor) -> Numbers:
    """Returns a tensor as a NumPy array in double precision."""
    numbers: Numbers = tensor.cpu().numpy().astype(float)
    return numbers


def _core_seconds(graph: BatchGraph, kinds: GraphKinds) -> Numbers:
    """Returns (cells,) the core-seconds that the evaluation of each cell alone would take."""
    n_cells = len(graph.sizes)
    pair_kind_owners, angle_kind_owners = kinds.owners(graph)
    n_pair_kinds = np.bincount(pair_kind_owners, minlength=n_cells)
    n_angle_kinds = np.bincount(angle_kind_owners, minlength=n_cells)
    n_angles = np.bincount(graph.owners[graph.first[graph.left]], minlength=n_cells)
    seconds = CALL_SECONDS + np.where(n_angle_kinds > 0, ANGULAR_SECONDS, 0.0)
    seconds += KIND_SECONDS * (n_pair_kinds + n_angle_kinds)
    seconds += ANGLE_SECONDS * n_angles
    return seconds


@contextmanager
def _subnormal_numbers_as_zero() -> Iterator[None]:
    """Makes PyTorch take numbers below 1e-38 as 0 within the block.

    Such numbers are slow, and cut-off functions give many of them."""
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
    return Chgnet(model, scale, device, Layers.from_model(model))


def _factory(name: str, version: str, scale: EnergyScale) -> PotentialFactory:
    return PotentialFactory(
        name=name, scale=scale, elements=MPTRJ, make=partial(_make, version, scale), seconds=0.0015, package="chgnet"
    )


CHGNET = _factory("chgnet-0.3.0", "0.3.0", EnergyScale("CHGNet-0.3.0", functional="PBE+U", correction=MP2020))
CHGNET_R2SCAN = _factory("chgnet-r2scan", "r2scan", EnergyScale("CHGNet-r2SCAN", functional="r2SCAN"))
