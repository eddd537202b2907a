"""Message brokers, and the messages that wake workers and drivers."""
