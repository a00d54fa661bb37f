"""Calls that wait for a slot: in which order they leave, how many may wait, when they give up."""
