"""Machine-learnt force fields for molecules: what each declares, energies and forces, relaxation, conformers."""
