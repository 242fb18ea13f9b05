"""The steps of translating a command from one build of llama-server to another."""
