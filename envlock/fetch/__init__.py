"""Bytes of locked artefacts: where the user's configuration finds them, and the store that keeps them."""
