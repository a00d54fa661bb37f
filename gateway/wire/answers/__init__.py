"""What a replica sends, and how every dialect reads it: frames, JSON of events, hidden errors."""
