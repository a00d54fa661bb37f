"""The OpenAI text dialect: ``chat/completions`` and ``completions``."""
