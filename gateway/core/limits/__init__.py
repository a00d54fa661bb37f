"""Quota: what a call asks of its buckets, and the arithmetic of one bucket."""
