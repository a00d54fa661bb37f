"""The OpenAI dialect of ``embeddings``: nothing is generated, nothing is streamed."""
