"""EnvSpec -> Lock."""
