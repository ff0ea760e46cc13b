# Two commands: `make demo` builds the real example from its committed lock; `make test` runs every check and test.
# Each sets up all it needs in a folder of its own (.demo, .venv), as root or as any user.
.PHONY: demo test lint pytest clean

DEMO_ENV = XDG_CACHE_HOME=$(CURDIR)/.demo/cache
VENV = .venv/bin

demo:
	@.ci/setup-venv .demo/venv
	@$(DEMO_ENV) .demo/venv/bin/envlock build examples/qlora --output .demo/qlora
	@echo
	@echo "The image is an OCI layout in .demo/qlora/image. To run it where there is a Docker engine:"
	@echo "  $(DEMO_ENV) .demo/venv/bin/envlock build examples/qlora --output .demo/qlora --docker-archive .demo/qlora.tar"
	@echo "  docker load -i .demo/qlora.tar"
	@echo "  docker run --rm --gpus all envlock/qlora python -c 'import torch; print(torch.randn(9, 9, device=\"cuda\").sum())'"
	@echo "  docker run --rm envlock/qlora python train.py --smoke    # a LoRA step, on a GPU or without one"

test: lint pytest

lint:
	@.ci/setup-venv .venv dev
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	$(VENV)/lint-imports

pytest:
	@.ci/setup-venv .venv dev
	$(VENV)/pytest -n 2 --dist loadgroup $(PYTEST_ARGS)

clean:
	rm -rf .demo .venv .mypy_cache .ruff_cache .pytest_cache
