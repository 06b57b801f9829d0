"""Pure transforms from samples to regular grids, rates and per-job frames."""
