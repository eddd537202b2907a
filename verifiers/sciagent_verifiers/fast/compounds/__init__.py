"""Properties of inorganic compounds by formula and published tables."""
