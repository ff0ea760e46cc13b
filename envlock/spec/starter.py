"""A first envlock.toml, rendered from templates/envlock.toml.j2."""

from __future__ import annotations

import jinja2

__all__ = ["render_starter"]


def render_starter(*, name: str, driver: str | None, requirements_file: str | None) -> str:
    """The text of a specification to start from.

    `driver` is the NVIDIA driver's version ("580.65.06") where one is known; `requirements_file` a path relative to
    the folder where pip's requirements stand already.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("envlock", "_templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 (the template makes TOML, where every value goes through tojson)
    )
    template = environment.get_template("envlock.toml.j2")
    return template.render(name=name, driver=driver, requirements_file=requirements_file)
