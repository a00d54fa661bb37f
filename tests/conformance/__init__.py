"""Does a server speak the APIs that clients of OpenAI and Anthropic expect? For any server:

    python -m tests.conformance --base-url http://127.0.0.1:8000 --key KEY [--model M] [DIALECT ...]

It needs nothing but this package and aiohttp. Every check is a few small calls; none depends on
what the model says.
"""
