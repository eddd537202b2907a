"""Energies by cut layers are those of CHGNet's own, for every form of its architecture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ase.build import bulk
from pymatgen.core import Lattice, Structure

from sciagent_simulators.potentials.chgnet_graph_and_equivalent_atoms import KindGraph, batch_graph, kinds_of
from sciagent_simulators.potentials.chgnet_with_faster_layers import Layers

SMALL = {"atom_fea_dim": 16, "bond_fea_dim": 12, "angle_fea_dim": 8, "atom_conv_hidden_dim": 10, "n_conv": 3}


def cells() -> list[Any]:
    made = [bulk("NaCl", "rocksalt", a=5.6), bulk("MgO", "rocksalt", a=4.2), bulk("KBr", "rocksalt", a=6.8)]
    for seed, atoms in enumerate(made):
        atoms.rattle(0.05, seed=seed)
    return made


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mlp_first": False, "read_out": "ave"},
        {"update_angle": False, "conv_norm": "layer"},
        {"update_bond": False, "update_angle": False, "gMLP_norm": None},
        {"mlp_out_bias": True, "bond_conv_hidden_dim": 0, "angle_layer_hidden_dim": 6},
    ],
)
def test_energies_are_those_of_chgnet(options: dict[str, Any]) -> None:
    import torch
    from chgnet.model import CHGNet

    torch.manual_seed(1)
    model = CHGNet(composition_model="MPtrj", **SMALL, **options).eval().requires_grad_(False)
    structures = [
        Structure(Lattice(atoms.cell.array), atoms.get_chemical_symbols(), atoms.get_scaled_positions(False))
        for atoms in cells()
    ]
    graph = batch_graph(cells(), 6.0, 3.0)
    kinds = kinds_of(graph)
    lengths, cosines = kinds.bonds.mean(graph.lengths[graph.pair_of]), kinds.angles.mean(graph.cosines)
    with torch.no_grad():
        wanted = model([model.graph_converter(each) for each in structures], task="e")["e"].numpy() * 2
        values = [torch.from_numpy(each.astype(np.float32)) for each in (lengths, cosines)]
        found = Layers.from_model(model).energies(KindGraph.from_graph(graph, kinds, "cpu"), *values).numpy()
    assert np.ptp(wanted) > 0.1 and found == pytest.approx(wanted, abs=1e-4)
