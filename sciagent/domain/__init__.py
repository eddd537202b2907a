"""Plain values that every other part shares. No I/O, no chemistry library, no database."""
