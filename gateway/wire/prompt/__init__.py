"""What of a request a model reads: how much, in what writing, in which order. For all dialects."""
