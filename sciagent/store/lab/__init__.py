"""Work of people in the ledger: tasks, samples, and what was answered."""
