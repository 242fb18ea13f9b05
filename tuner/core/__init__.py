"""Pure values and decisions: no process, socket, file, clock or random source."""
