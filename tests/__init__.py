"""The suite: `python3 -m tests` runs it against a server that it starts itself."""
