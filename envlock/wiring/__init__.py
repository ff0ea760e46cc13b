"""The one place that reads environ, working directory and clock, and picks adapters: a file per command."""
