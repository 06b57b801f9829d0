"""Slow and sick: what jobs, cards, hosts and links show of it, with the evidence. Nothing here acts."""
