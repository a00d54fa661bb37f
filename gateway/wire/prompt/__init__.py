"""What of a request the model reads: how much, in what writing, in which order."""
