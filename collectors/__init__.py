"""Read the world into samples: exporters over HTTP, Prometheus, recorded files."""
