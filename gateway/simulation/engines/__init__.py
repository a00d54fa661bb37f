"""Engine models: one interface, several loops, each from a published engine."""
