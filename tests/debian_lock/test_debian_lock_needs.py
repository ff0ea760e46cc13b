from __future__ import annotations

from envlock.lock.debian.needs import base_packages, packages_for_wheels, ssh_packages


def test_every_base_has_an_interpreter_certificates_and_apt() -> None:
    assert base_packages() == {
        "apt": "base",
        "ca-certificates": "base",
        "libstdc++6": "base",
        "python3": "python",
        "python3-venv": "python",
    }


def test_triton_wants_a_compiler_and_headers_and_other_wheels_want_nothing() -> None:
    assert packages_for_wheels(["numpy", "torch"]) == {}
    assert packages_for_wheels(["torch", "triton"]) == {
        "gcc": "triton",
        "libc6-dev": "triton",
        "libpython3-dev": "triton",
    }


def test_ssh_wants_the_server() -> None:
    assert ssh_packages() == {"openssh-server": "ssh"}


def test_a_table_cannot_be_changed_through_what_it_gave() -> None:
    base_packages().clear()
    assert base_packages()
