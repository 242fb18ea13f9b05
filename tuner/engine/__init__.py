"""Everything that knows llama-server: probe, command line, process, HTTP client, model files."""
