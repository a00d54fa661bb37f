"""One scheduler per pool, for reality and simulation: pure, synchronous, time passed in."""
