"""A pretend cluster: speaks as exporters, obeys as a backend."""
