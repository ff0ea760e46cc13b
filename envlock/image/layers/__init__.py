"""The layer format: one module writes members, one per recipe kind says what goes in."""
