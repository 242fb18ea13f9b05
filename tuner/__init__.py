"""Finds the fastest llama-server configuration for two GPUs that do not match, with proof."""

__version__ = "0.1.0"
