"""Pure policy: no I/O, no clock of its own, no Django. Time, randomness and state are passed in."""
