"""Published traces as calls: lengths and times only."""
