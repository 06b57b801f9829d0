"""What to expect of a training job before it has run: a pure estimate from its description, with the reasoning."""
