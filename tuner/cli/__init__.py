"""The command line: parse, build, call, render; the only place for exit codes and terminal output."""
