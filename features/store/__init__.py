"""The feature store: appended batches that survive, and point-in-time reads."""
