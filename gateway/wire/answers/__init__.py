"""How is read what a replica sends: frames, the JSON of events, hidden errors. For all dialects."""
