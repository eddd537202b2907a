"""Exports: SDF, Parquet, ASE database, RO-Crate."""
