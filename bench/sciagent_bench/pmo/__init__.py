"""Practical Molecular Optimization (PMO): 23 tasks as MolScore describes them, as a verifier and as campaigns."""
