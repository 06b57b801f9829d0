"""HTTP: one router file per resource, problem+json on every error, and the web page."""
