"""A real llama.cpp server in a process of its own, with the generated model.

``with serving(model) as server`` returns once the server answers; nothing sleeps: the process says
READY with its address on its standard output. Prefixes live in slots only (no host cache), so that
cached counts repeat exactly.
"""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fakes.tinyllm import build

MODEL_NAME = "tiny"


@dataclass(frozen=True, slots=True)
class LlamaServer:
    url: str
    process: subprocess.Popen[str]

    def kill(self) -> None:
        """As kill -9: streams are cut at once."""
        self.process.kill()
        self.process.wait()


@contextmanager
def serving(
    model: Path,
    *,
    slots: int = 4,
    context_tokens: int = 4_096,
    port: int = 0,
    embeddings: bool = False,
) -> Iterator[LlamaServer]:
    """``context_tokens`` per slot; port 0 takes a free one. A server for ``embeddings``, the mean
    over the tokens of an input, serves nothing else."""
    command = [sys.executable, "-m", "tests.fakes.llamacpp", str(model)]
    process = subprocess.Popen(  # our own interpreter and arguments
        [*command, str(port), str(slots), str(context_tokens), *["embeddings"] * embeddings],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield LlamaServer(_address(process), process)
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("READY "):
            return line.removeprefix("READY ").strip()
    raise RuntimeError(f"the llama.cpp server ended with status {process.wait()} before READY")


def _serve(model: str, port: int, slots: int, context_tokens: int, *, embeddings: bool) -> None:
    """One thread: more of them spin on a busy machine. Small batches keep prefills from blocking
    the streams of others for long."""
    import xllamacpp  # loads a native library: only in the server's own process

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {MODEL_NAME}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = slots
    params.n_ctx = slots * context_tokens
    params.n_batch = params.n_ubatch = 512
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.endpoint_metrics = params.endpoint_slots = True
    params.cache_ram_mib = 0
    params.slot_prompt_similarity = 0.5
    params.fit_params = False
    params.verbosity = 2
    if embeddings:
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    server = xllamacpp.Server(params)
    sys.stdout.write(f"READY {server.listening_address}\n")
    sys.stdout.flush()
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    stop.wait()


@pytest.fixture(scope="session")
def llama_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Import into a conftest. The smallest generated model."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed")
    return build(tmp_path_factory.mktemp("model"), "nano")


@pytest.fixture(scope="session")
def llama_server(llama_model: Path) -> Iterator[LlamaServer]:
    """Import into a conftest. One server of four slots for the whole session; not to be killed."""
    with serving(llama_model) as server:
        yield server


@pytest.fixture(scope="session")
def embedding_server(llama_model: Path) -> Iterator[LlamaServer]:
    """Import into a conftest. One server of two slots that makes vectors."""
    with serving(llama_model, slots=2, embeddings=True) as server:
        yield server


if __name__ == "__main__":
    _model, *_numbers = sys.argv[1:5]
    _serve(_model, *map(int, _numbers), embeddings=sys.argv[5:] == ["embeddings"])
