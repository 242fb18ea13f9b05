"""What a command does over a whole run, against Protocols."""
