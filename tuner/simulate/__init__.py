"""Played rigs: a launch of llama-server as a formula, for tests and benches."""
