"""Pages of the laboratory: my list, one task, labels, sheets."""
