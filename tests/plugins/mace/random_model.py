"""Writes a tiny MACE with random weights: `python random_model.py FILE`, in the environment that has mace."""

from __future__ import annotations

import sys

import numpy as np
import torch
from mace import modules  # before e3nn: it lets torch load the constants of e3nn 0.4.4
from mace.modules import interaction_classes

from e3nn import o3  # isort: skip

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
first = interaction_classes["RealAgnosticInteractionBlock"]
later = interaction_classes["RealAgnosticResidualInteractionBlock"]
model = modules.ScaleShiftMACE(
    r_max=4.0, num_bessel=4, num_polynomial_cutoff=5, max_ell=1, interaction_cls=later, interaction_cls_first=first,
    num_interactions=2, num_elements=2, hidden_irreps=o3.Irreps("8x0e"), MLP_irreps=o3.Irreps("8x0e"),
    atomic_energies=np.array([-1.0, -2.0]), avg_num_neighbors=8.0, atomic_numbers=[11, 17], correlation=1,
    gate=torch.nn.functional.silu, atomic_inter_scale=0.01, atomic_inter_shift=0.0,
)  # fmt: skip
torch.save(model, sys.argv[1])
