"""YAML files that people write: plain data with the place of every key, and mistakes in words they understand."""
