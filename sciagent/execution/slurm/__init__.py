"""Runs jobs on a Slurm cluster, as arrays submitted by sbatch. States are read without accounting (sacct)."""
