"""Molecular dynamics in chunks that can be resumed; statistics of its series, structure, diffusion, free energy."""
