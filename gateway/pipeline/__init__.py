"""The life of a call. Read ``life`` first: it tells the ten steps from top to bottom."""
