"""Workers that receive wake-up tokens through Celery."""
