"""Keep samples, and turn them into the frames that models see: one code path, offline and online."""
