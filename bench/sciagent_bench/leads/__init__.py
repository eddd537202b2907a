"""Lead optimisation: the best molecule that stays similar to a lead, within a number of calls."""
