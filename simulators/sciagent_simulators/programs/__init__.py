"""Programs of others as engines: one module to run them, one for what all results must have, one for each format."""
