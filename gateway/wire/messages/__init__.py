"""The Anthropic dialect: ``messages`` and the counting of their tokens."""
