"""Machine-learnt force fields for crystals: energies, forces and stresses in batches, relaxation, known phases."""
