"""Jobs on a cluster under Slurm: a site profile, arrays by sbatch, states without sacct."""
