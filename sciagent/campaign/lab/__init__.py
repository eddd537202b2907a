"""Work of people in a campaign: they claim tasks, and what they enter becomes evidence."""
