"""envlock.toml -> EnvSpec."""
