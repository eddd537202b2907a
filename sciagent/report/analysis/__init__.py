"""What a report says: which rung was worth its cost, why candidates were rejected, who proposed what."""
