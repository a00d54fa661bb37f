"""``manage.py simulated_replica``: one or more simulated replicas in one process."""

from __future__ import annotations

import argparse
import asyncio
import signal
from contextlib import AsyncExitStack
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gateway.replicas.simulated_server import SimulatedReplica, running
from gateway.simulation.engine import EngineConfig
from gateway.simulation.step_time import STEP_TIMES

_DEFAULTS = EngineConfig()
_HARDWARE = "\n".join(
    f"  {name}: {times.source}; a={times.floor_s * 1e3:.4g} ms, b={times.base_s * 1e3:.4g} ms, "
    f"c={times.per_token_s * 1e3:.4g} ms/token, k_kv={times.per_kv_token_s * 1e9:.4g} ns/token"
    for name, times in STEP_TIMES.items()
)


class Command(BaseCommand):
    help = (
        "Serve simulated inference servers (vLLM's API and metric names). A step takes\n"
        "max(a, b + c*n) + overhead + k_kv * KV tokens read + k_att * prefill pairs,\n"
        "n = tokens of the step: an operator-profile model, not a run on a GPU.\n\nHardware:\n"
        + _HARDWARE
    )
    requires_system_checks = ()

    def create_parser(self, *args: Any, **kwargs: Any) -> CommandParser:
        parser = super().create_parser(*args, **kwargs)
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        return parser

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8100, help="of the first replica")
        parser.add_argument("--count", type=int, default=1, help="replicas, on consecutive ports")
        parser.add_argument("--model", default="sim-llama-8b", help="the name it serves")
        parser.add_argument(
            "--hardware", choices=sorted(STEP_TIMES), default="a100-llama-3-8b", help="step times"
        )
        parser.add_argument("--speed", type=float, default=1.0, help="times faster than the model")
        for option, default, what in (
            ("--sequences", _DEFAULTS.sequences, "running at once (max_num_seqs)"),
            ("--step-tokens", _DEFAULTS.step_tokens, "per step (max_num_batched_tokens)"),
            ("--kv-tokens", _DEFAULTS.kv_tokens, "KV capacity"),
            ("--block-tokens", _DEFAULTS.block_tokens, "prefix-cache block (block_size)"),
            ("--context-tokens", _DEFAULTS.context_tokens, "context (max_model_len)"),
        ):
            parser.add_argument(option, type=int, default=default, help=f"{what}; %(default)s")
        parser.add_argument(
            "--queue-limit", type=int, help="answer 503 above it (max_num_queued_reqs)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        config = _config(options)
        if options["count"] < 1 or options["speed"] <= 0:
            raise CommandError("--count must be at least 1 and --speed above 0.")
        try:
            asyncio.run(self._serve(config, options))
        except OSError as error:
            raise CommandError(f"{error.strerror}: choose another --port.") from error

    async def _serve(self, config: EngineConfig, options: dict[str, Any]) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, stop.set)
        async with AsyncExitStack() as stack:
            for index in range(options["count"]):
                replica = SimulatedReplica(config, options["model"], options["speed"])
                port = options["port"] + index if options["port"] else 0
                served = await stack.enter_async_context(running(replica, port, options["host"]))
                self.stdout.write(f"READY {served.url}")
                self.stdout.flush()
            await stop.wait()


def _config(options: dict[str, Any]) -> EngineConfig:
    sizes = ("sequences", "step_tokens", "kv_tokens", "block_tokens", "context_tokens")
    too_small = [name for name in sizes if options[name] < 1]
    if too_small:
        raise CommandError(f"--{too_small[0].replace('_', '-')} must be at least 1.")
    return EngineConfig(
        step_time=STEP_TIMES[options["hardware"]],
        queue_limit=options["queue_limit"],
        **{name: options[name] for name in sizes},
    )
