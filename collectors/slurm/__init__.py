"""Slurm: jobs, nodes and who has which GPU, from its command line tools or from slurmrestd."""
