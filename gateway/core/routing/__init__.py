"""Which replica runs a call, chosen at the moment of dispatch: filter, then pick."""
