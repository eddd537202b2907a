"""The layers of CHGNet with a third of the arithmetic, for evaluation only; energies differ by rounding.

CHGNet gathers the features of two atoms and their bond for each pair of neighbours, or of two bonds, their angle and
their atom for each angle, and applies a linear layer to all of them in a row. The same sum is had by applying each part
of that layer to the atoms, bonds and angles first, which are fewer, and by gathering then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sciagent_simulators.potentials.chgnet_kinds import KindGraph

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
        core, gate = self.rests[0](core), self.rests[1](gate)
        if self.gated.norm is not None:
            core, gate = self.gated.bn1(core), self.gated.bn2(gate)
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
        atom, bond = model.atom_embedding.embedding.embedding_dim, model.bond_embedding.out_features
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

        model, radial = self.model, self.model.bond_basis_expansion
        expanded = radial.rbf_expansion_ag(lengths)
        atoms, bonds = model.atom_embedding(graph.numbers - 1), model.bond_embedding(expanded)
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
        model, sizes = self.model, graph.sizes
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
