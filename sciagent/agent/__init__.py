"""The agent: what proposes candidates, through the workbench and nothing else."""
