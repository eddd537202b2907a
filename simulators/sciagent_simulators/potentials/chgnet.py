"""CHGNet as a potential: one graph for all cells of a batch, and one backward pass for forces and stresses.

The graph of each cell is CHGNet's own. They are joined here, since CHGNet's own batches differentiate twice and loop
over the cells for every bond, which takes more than twice as long.

Source: Deng et al., Nat. Mach. Intell. 5, 1031 (2023), doi 10.1038/s42256-023-00716-3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sciagent_simulators.potentials.elements import MPTRJ
from sciagent_simulators.potentials.potential import (
    MP2020,
    ON_CPU,
    ON_GPU,
    EnergyScale,
    PotentialFactory,
    PotentialValues,
)


@dataclass(frozen=True)
class Chgnet:
    """A loaded CHGNet."""

    model: Any
    scale: EnergyScale
    device: str

    @property
    def atoms_at_once(self) -> int:
        return ON_CPU if self.device == "cpu" else ON_GPU

    def evaluate(self, batch: Sequence[Any]) -> Sequence[PotentialValues]:
        from pymatgen.core import Lattice, Structure

        graphs = [
            self.model.graph_converter(
                Structure(Lattice(atoms.cell.array), atoms.get_chemical_symbols(), atoms.get_scaled_positions(False))
            )
            for atoms in batch
        ]
        energies, forces, stresses = _evaluated(self.model, graphs, self.device)
        ends = np.cumsum([len(atoms) for atoms in batch])[:-1]
        return [
            PotentialValues(float(energy), force, stress)
            for energy, force, stress in zip(energies, np.split(forces, ends), stresses, strict=True)
        ]


def _evaluated(model: Any, graphs: Sequence[Any], device: str) -> tuple[Any, Any, Any]:
    """Returns energies (n, eV), forces (all atoms x 3, eV/angstrom) and stresses (n x 3 x 3, eV/angstrom**3)."""
    import torch

    sizes = torch.tensor([len(graph.atomic_number) for graph in graphs])
    owners = torch.repeat_interleave(torch.arange(len(graphs)), sizes).to(device)
    lattices = torch.stack([graph.lattice.detach() for graph in graphs]).to(device)
    strains = torch.zeros_like(lattices, requires_grad=True)
    strained = lattices @ (torch.eye(3, device=device) + strains)
    fractional = torch.cat([graph.atom_frac_coord.detach() for graph in graphs]).to(device)
    positions = torch.einsum("ni,nij->nj", fractional, strained[owners])
    joined = _joined(model, graphs, positions, strained, owners)
    predicted = model._compute(joined)
    energies = (predicted["e"] + model.composition_model([graph.to(device) for graph in graphs])) * sizes.to(device)
    gradients = torch.autograd.grad(energies.sum(), (positions, strains))
    volumes = torch.linalg.det(lattices).abs()
    results = energies.detach(), -gradients[0], gradients[1] / volumes[:, None, None]
    return tuple(result.cpu().numpy().astype(float) for result in results)


def _joined(model: Any, graphs: Sequence[Any], positions: Any, strained: Any, owners: Any) -> Any:
    """Returns CHGNet's BatchedGraph of all cells. positions: all atoms x 3; strained: n x 3 x 3 lattices."""
    import torch
    from chgnet.model.model import BatchedGraph

    device = positions.device
    bonds = [graph.atom_graph.reshape(-1, 2).long() for graph in graphs]
    atoms_before = _before([len(graph.atomic_number) for graph in graphs])
    directed_before = _before([len(graph.directed2undirected) for graph in graphs])
    undirected_before = _before([len(graph.undirected2directed) for graph in graphs])
    atom_graph = torch.cat([pair + n for pair, n in zip(bonds, atoms_before, strict=True)]).to(device)
    directed = _shifted([graph.undirected2directed for graph in graphs], directed_before).to(device)
    images = torch.cat([graph.neighbor_image.reshape(-1, 3) for graph in graphs]).to(device)
    shifts = torch.einsum("ni,nij->nj", images, strained[owners[atom_graph[:, 0]]])
    nothing = images.new_zeros((len(images), 3))
    neighbours = positions[atom_graph[:, 1]] + shifts
    radial, radial_near, vectors = model.bond_basis_expansion(
        center=positions[atom_graph[:, 0]], neighbor=neighbours, undirected2directed=directed, image=nothing,
        lattice=torch.eye(3, device=device),
    )  # fmt: skip
    angles = [
        graph.bond_graph.long() + torch.tensor([atom, undirected, first, undirected, first])
        for graph, atom, undirected, first in zip(graphs, atoms_before, undirected_before, directed_before, strict=True)
        if len(graph.bond_graph)
    ]
    angle_bases = bond_graph = torch.tensor([])
    if angles:
        corners = torch.cat(angles).to(device)
        angle_bases = model.angle_basis_expansion(vectors[corners[:, 2]], vectors[corners[:, 4]])
        bond_graph = corners[:, [0, 1, 3]]
    return BatchedGraph(
        atomic_numbers=torch.cat([graph.atomic_number for graph in graphs]).to(device),
        bond_bases_ag=radial,
        bond_bases_bg=radial_near,
        angle_bases=angle_bases,
        batched_atom_graph=atom_graph,
        batched_bond_graph=bond_graph,
        atom_owners=owners.to(torch.int32),
        directed2undirected=_shifted([graph.directed2undirected for graph in graphs], undirected_before).to(device),
        atom_positions=(),
        strains=(),
        volumes=(),
    )


def _before(sizes: Sequence[int]) -> list[int]:
    """Returns the number of entries before each part."""
    return [0, *np.cumsum(sizes)[:-1].tolist()]


def _shifted(parts: Sequence[Any], before: Sequence[int]) -> Any:
    import torch

    return torch.cat([part.long() + n for part, n in zip(parts, before, strict=True)])


def _make(version: str, scale: EnergyScale, weights: Path | None, device: str) -> Chgnet:
    from chgnet.model import CHGNet

    if weights is None:
        model = CHGNet.load(model_name=version, use_device=device, verbose=False)
    else:
        model = CHGNet.from_file(str(weights), mlp_out_bias=False).to(device)
    model.graph_converter.set_isolated_atom_response("ignore")
    return Chgnet(model.eval().requires_grad_(False), scale, device)


def _factory(name: str, version: str, scale: EnergyScale) -> PotentialFactory:
    return PotentialFactory(name, scale, MPTRJ, partial(_make, version, scale), 0.003, "chgnet")


CHGNET = _factory("chgnet-0.3.0", "0.3.0", EnergyScale("CHGNet-0.3.0", "PBE+U", MP2020))
CHGNET_R2SCAN = _factory("chgnet-r2scan", "r2scan", EnergyScale("CHGNet-r2SCAN", "r2SCAN"))
