"""Commands for workers, jobs and clusters."""
