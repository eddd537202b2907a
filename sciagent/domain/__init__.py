"""Plain values that all other packages share; without I/O, chemistry libraries or database."""
