"""Pages. A view parses, calls one selector or service, renders."""
