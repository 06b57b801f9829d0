"""Kubernetes: whose pods have which GPUs, from lists of the API. Read only."""
