"""What is done with a running server: measured, looked at, loaded with all that it is for."""
