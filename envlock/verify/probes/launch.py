"""Run one probe: `launch.py NAME SCRATCH`, the request as JSON on stdin, answers as lines of JSON on stdout.

What libraries print goes to stderr. Lines are {"stage": name}, then {"seen": value} or {"failed": {...}}.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from pathlib import Path

_TRACE = 4000  # characters of a traceback's end


def main(name: str, scratch: str) -> None:
    """Run the probe and tell what it saw, or how it failed."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        request = json.load(sys.stdin)
        from envlock.verify.probes import Talk  # noqa: PLC0415 (found through the path that __main__ sets)

        try:
            probe = importlib.import_module(f"envlock.verify.probes.{name}").probe
            told = {"seen": probe(request, Talk(answers, Path(scratch)))}
        except (Exception, SystemExit) as exc:  # noqa: BLE001 (told to the runner, which judges it)
            trace = traceback.format_exc()[-_TRACE:]
            told = {"failed": {"kind": type(exc).__name__, "text": str(exc), "trace": trace}}
        answers.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    sys.path[0:0] = [str(Path(__file__).resolve().parents[3])]
    main(sys.argv[1], sys.argv[2])
