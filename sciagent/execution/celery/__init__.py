"""Workers that Celery wakes."""
