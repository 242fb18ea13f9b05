"""What is wrong with a command, by what it is about."""
