"""The Responses API of OpenAI, without what it stores."""
