"""Lock -> OCI image, with no engine and no root."""
