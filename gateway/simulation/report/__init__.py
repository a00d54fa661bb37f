"""A matrix of runs as a table, as JSON and as a page."""
