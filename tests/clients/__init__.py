"""Clients that people use, unchanged, in front of scripted, simulated and real replicas.

Each program here runs in the environment of its client, one process for all of its cases: facts
about the installation come in on its standard input, and a line for each case goes out. ``stage``
makes what they talk to, ``programs`` knows how each is run. The suite (``tests/e2e/test_clients``)
runs those of the official clients, ``make clients`` all of them.
"""
