"""Load the real example's docker-archive into an engine and run it there on the CPU."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import docker
from docker.models.images import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from dockerd import engine

_PROBE = """
import json, sys, time
began = time.perf_counter()
import torch, transformers, peft
seconds = time.perf_counter() - began
a, b = torch.randn(256, 384, dtype=torch.float64), torch.randn(384, 128, dtype=torch.float64)
want = (a[:, :, None] * b[None, :, :]).sum(1)
assert torch.allclose(a @ b, want), "a product of matrices is wrong"
print(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__,
                  "cuda": torch.version.cuda, "prefix": sys.prefix, "import_seconds": round(seconds, 2)}))
"""


def main() -> int:
    """Run the checks; any that fails raises, so that the exit status is not 0."""
    archive = Path(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="envlock-engine-") as folder, engine(Path(folder)) as url:
        client = docker.DockerClient(base_url=url, timeout=900)
        began = time.monotonic()
        with archive.open("rb") as file:
            image = client.images.load(file)[0]
        print(f"loaded {image.tags} as {image.id} in {time.monotonic() - began:.1f} s")
        print("imports and product:", _run(client, image, ["python", "-c", _PROBE]))
        print("a LoRA step:", _run(client, image, ["python", "/workspace/train.py", "--smoke"]))
        print("packages:", _run(client, image, ["sh", "-c", "dpkg -l | grep -c ^ii; dpkg --audit; python -V"]))
        client.images.remove(image.id, force=True)
    return 0


def _run(client: docker.DockerClient, image: Image, command: list[str]) -> str:
    output = client.containers.run(image.id, command, network_mode="none", remove=True, stderr=False)
    text = output.decode().strip()
    if command[0] == "python":
        json.loads(text.splitlines()[-1])
    return text


if __name__ == "__main__":
    sys.exit(main())
