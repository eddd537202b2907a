"""A worker: claims jobs, runs them, writes their results."""
