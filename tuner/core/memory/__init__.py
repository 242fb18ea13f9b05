"""What a server will need of each device before it is started, and how sure that is."""
