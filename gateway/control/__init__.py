"""The control API of the gateway: pools, models, replicas, policy parameters, calls."""
