"""The words every other room speaks: catalogue, ids, samples, jobs, topology, clock, errors. No I/O."""
