"""What comes from files and the environment: YAML documents and their validation, input files, settings."""
