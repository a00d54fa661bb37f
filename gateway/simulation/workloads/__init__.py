"""The workloads of the published comparisons and of the project's own scenarios."""
