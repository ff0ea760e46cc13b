"""What looks like a secret and must not end up in an image, a lock or a specification."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from envlock.spec.faults import Wrong

__all__ = ["refuse_credentials", "refuse_secret"]

_SECRET_WORDS = frozenset(
    {"APIKEY", "CREDENTIAL", "CREDENTIALS", "KEY", "PASSPHRASE", "PASSWD", "PASSWORD", "PAT", "SECRET", "TOKEN"}
)
_KNOWN_SHAPES = re.compile(  # how issuers mark their tokens
    r"hf_[A-Za-z0-9]{20,}"
    r"|gh[opsur]_[A-Za-z0-9]{20,}"
    r"|github_pat_\w{20,}"
    r"|glpat-[\w-]{16,}"
    r"|sk-[\w-]{16,}"
    r"|xox[abprs]-[\w-]{10,}"
    r"|A[KS]IA[A-Z0-9]{16}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)


def refuse_secret(name: str, value: str) -> None:
    """Raise Wrong where a variable's last word (HF_TOKEN, WANDB_API_KEY) or its value tells a secret.

    TOKENIZERS_PARALLELISM, HF_TOKEN_PATH and the like are none.
    """
    last = name.upper().rsplit("_", 1)[-1]
    if value and (last in _SECRET_WORDS or _KNOWN_SHAPES.search(value)):
        raise Wrong(
            f"the value of {name} looks like a secret, and whoever has the image could read it",
            "delete it here and give it when a container starts, as `docker run --env` does",
        )
    refuse_credentials(value)


def refuse_credentials(url: str) -> None:
    """Raise Wrong where a URL holds a password or token; the fault does not repeat it."""
    try:
        parts = urlsplit(url)
    except ValueError:  # no URL at all
        return
    ssh_user = parts.password is None and "ssh" in parts.scheme
    if parts.username and not ssh_user and parts.netloc:
        host = parts.netloc.rpartition("@")[2]
        raise Wrong(
            f"the URL of {host} holds credentials, which would end up in locks and images",
            f"write it without them and put them into ~/.netrc (machine {host} ...) or pip's or uv's configuration",
        )
