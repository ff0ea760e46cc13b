from __future__ import annotations

import importlib.util
import marshal
import re
import shutil
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from reading import layer_of
from wheels_in_code import WheelKit

from envlock.errors import FaultyInput, MachineLacks
from envlock.image.layers.bytecode import Compiler
from envlock.image.layers.wheel import Scheme, wheel_entries

# Literals, docstrings and names that repeat within and between modules: what marshal writes as references, or not.
MODULES = [
    (f"/opt/env/lib/pkg/m{number}.py", source.encode())
    for number, source in enumerate(
        [
            "",
            "def f():\n    class C:\n        pass\n",
            "x = 1\ndef f(a):\n    class C:\n        y = a\n    return C, 'f.<locals>.C', ('f.<locals>.C', 'g')\n",
            "def f(a): return a in {'one', 'two'}\ndef g(a): return a in {'two', 'one'}\ndef h(one, two): pass\n",
            "one, two = 1, 2\ndef f(a): return a in {'one', 'two'}\n",
            "x = {'a', 'b', 'c', 'name', 'other'}\ndef f(name, other): return name in {'a', 'b', 'c', 'zz'}\n",
            "class A:\n    '''A doc'''\n    name = 'name'\n    def f(self, *, other=(1, 'a', b'a')): return self.f\n",
            "def f():\n    def g(x=('a', ('b', 'c'))):\n        return lambda: x\n    return g\nname = 'A doc'\n",
            "from __future__ import annotations\nimport os, sys\nprint(f'{os!r:>10} {sys.path}')\n" * 20,
            "async def f(name):\n    async for a in name: yield a, 1j, ..., None, True, 10**20, -0.0\n",
        ]
    )
]
HERE = Scheme("opt/env", f"{sys.version_info.major}.{sys.version_info.minor}")


@pytest.fixture
def compiler() -> Iterator[Compiler]:
    with Compiler((sys.executable,), {}) as compiler:
        yield compiler


def other_interpreters() -> list[str]:
    found = {shutil.which(f"python3.{minor}") for minor in range(11, 20)} | {"/usr/bin/python3", sys.executable}
    return sorted(path for path in found if path and _runs(path))


def _runs(path: str) -> bool:
    return Path(path).exists() and subprocess.run((path, "-c", ""), capture_output=True, check=False).returncode == 0


def code_of(pyc: bytes) -> types.CodeType:
    code = marshal.loads(pyc[16:])  # noqa: S302 (just compiled)
    assert isinstance(code, types.CodeType)
    return code


def test_a_pyc_is_hash_based_and_never_checked(compiler: Compiler) -> None:
    path, source = MODULES[1]
    (pyc,) = compiler.compile([(path, source)])
    assert pyc is not None
    assert pyc[:8] == importlib.util.MAGIC_NUMBER + b"\1\0\0\0"
    assert pyc[8:16] == importlib.util.source_hash(source)
    assert code_of(pyc).co_filename == path


def test_python_imports_it_in_place_of_the_source(compiler: Compiler, tmp_path: Path) -> None:
    (pyc,) = compiler.compile([(f"{tmp_path}/mod.py", b"VALUE = 'compiled'\n")])
    assert pyc is not None
    (tmp_path / "mod.py").write_text("VALUE = 'source'\n")
    cached = Path(importlib.util.cache_from_source(str(tmp_path / "mod.py")))
    cached.parent.mkdir()
    cached.write_bytes(pyc)
    said = subprocess.check_output((sys.executable, "-c", "import mod; print(mod.VALUE)"), cwd=tmp_path, text=True)
    assert said == "compiled\n"


def test_what_does_not_compile_has_none(compiler: Compiler) -> None:
    sources = [b"print 'python 2'\n", b"x = 1\n", b"a\0b", b"# coding: nothing\n", b"\xff", b"(" * 1000, b"x = 2\n"]
    assert [pyc is not None for pyc in compiler.compile([("/a.py", text) for text in sources])] == [
        False, True, False, False, False, False, True,
    ]  # fmt: skip


def test_sources_of_every_encoding_compile(compiler: Compiler) -> None:
    texts = ["# coding: latin-1\nx = 'é'\n".encode("latin-1"), "\ufeffx = 'é'\n".encode(), b"x = 1\r\ny = 2\r"]
    assert None not in compiler.compile([("/a.py", text) for text in texts])


def test_warnings_about_sources_are_nobodys_business(compiler: Compiler, capfd: pytest.CaptureFixture[str]) -> None:
    assert None not in compiler.compile([("/a.py", b"x = '\\d' is 'a'\n")])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("interpreter", other_interpreters())
def test_bytecode_does_not_depend_on_order_hash_seed_or_neighbours(interpreter: str) -> None:
    def compiled(modules: list[tuple[str, bytes]], environment: dict[str, str]) -> dict[str, bytes | None]:
        with Compiler((interpreter,), environment) as compiler:
            return dict(zip((path for path, _ in modules), compiler.compile(modules), strict=True))

    plain = compiled(MODULES, {})
    assert compiled(MODULES[::-1], {"PYTHONHASHSEED": "5", "PYTHONOPTIMIZE": "2", "TZ": "Asia/Tokyo"}) == plain
    assert {path: compiled([(path, text)], {})[path] for path, text in MODULES} == plain


def test_bytecode_is_the_same_under_other_hash_seeds() -> None:
    # The seed is held at 0 because sets of a source are walked when it is compiled; most code does not show it.
    program = Path(sys.modules[Compiler.__module__].__file__ or "").with_name("bytecode_program.py")
    asked = b"".join(
        len(part).to_bytes(4, "little") + part for path, text in MODULES for part in (path.encode(), text)
    )
    runs = {
        subprocess.run(
            (sys.executable, program), input=asked, env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(runs) == 1


def test_the_version_tells_tag_and_full_version(compiler: Compiler) -> None:
    assert re.fullmatch(r"cpython-3\d+ 3\.\d+\.\d+", compiler.version)
    assert compiler.python == HERE.python


def test_results_come_while_sources_are_still_being_given(compiler: Compiler) -> None:
    first_is_here = threading.Event()

    def sources() -> Iterator[tuple[str, bytes]]:
        yield "/a.py", b"x = 1\n"
        assert first_is_here.wait(30)
        yield "/b.py", b"x = 2\n"

    with compiler.stream(sources()) as results:
        assert next(results) is not None
        first_is_here.set()
        assert len(list(results)) == 1


def test_little_is_held_however_slowly_results_are_taken(compiler: Compiler) -> None:
    given: list[int] = []

    def sources() -> Iterator[tuple[str, bytes]]:
        for number in range(200):
            given.append(number)
            yield "/m.py", b"x = b'" + b"x" * 1_000_000 + b"'\n"

    with compiler.stream(sources()) as results:
        next(results)
        results_thread_idle(given)
        assert len(given) < 60
        assert len(list(results)) == 199


def results_thread_idle(given: list[int]) -> None:
    """Wait until no more sources are taken."""
    seen = -1
    while seen != len(given):
        seen = len(given)
        time.sleep(0.2)


def test_what_the_sources_raise_is_raised_after_the_results_before_it(compiler: Compiler) -> None:
    def sources() -> Iterator[tuple[str, bytes]]:
        yield "/a.py", b"x = 1\n"
        raise FaultyInput("broken", hint="", code="wheel-faulty")

    with compiler.stream(sources()) as results:
        assert next(results) is not None
        with pytest.raises(FaultyInput, match="broken"):
            next(results)


def test_leaving_early_ends_the_process(compiler: Compiler) -> None:
    with compiler.stream(MODULES * 1000) as results:
        next(results)
    assert results.closed
    assert results.status is not None


def test_an_interpreter_that_is_missing_or_dies_is_told(tmp_path: Path) -> None:
    with pytest.raises(MachineLacks, match="cannot be run") as caught:
        Compiler((str(tmp_path / "none"),), {}).compile(MODULES)
    assert caught.value.code == "interpreter-fails"
    with pytest.raises(MachineLacks, match="cannot be run"):
        _ = Compiler((str(tmp_path / "none"),), {}).version
    dying = tmp_path / "dying"
    dying.write_text("#!/bin/sh\necho out of luck >&2\nexit 3\n")
    dying.chmod(0o755)
    with pytest.raises(MachineLacks, match="status 3 after 0 modules\nout of luck"):
        Compiler((str(dying),), {}).compile(MODULES)


def test_a_wheel_gets_bytecode_beside_its_modules(compiler: Compiler, tmp_path: Path) -> None:
    tag = compiler.version.split()[0]
    files = {
        "pkg/__init__.py": b"x = 1\n",
        "pkg/b.py": b"y = 2\n" * 5000,
        "pkg/py2.py": b"print 'x'\n",
        "pkg/data.txt": b"",
        f"pkg/__pycache__/b.{tag}.pyc": b"the wheel's own",
        f"pkg/__pycache__/gone.{tag}.pyc": b"of no module",
        "sample-1.0.data/scripts/tool.py": b"#!python\n",
        "sample-1.0.data/purelib/top.py": b"z = 3\n",
    }
    kit = WheelKit(files=files)
    layer = layer_of(wheel_entries(kit.write(tmp_path), HERE, compiler=compiler))
    site = HERE.site_packages
    found = {path: data for path, data in layer.files().items() if "__pycache__" in path}
    wanted = [
        f"__pycache__/top.{tag}.pyc",
        *(f"pkg/__pycache__/{name}.{tag}.pyc" for name in ("__init__", "b", "gone")),
    ]
    assert sorted(found) == [f"{site}/{name}" for name in wanted]
    assert code_of(found[f"{site}/pkg/__pycache__/b.{tag}.pyc"]).co_filename == f"/{site}/pkg/b.py"
    assert found[f"{site}/pkg/__pycache__/gone.{tag}.pyc"] == b"of no module"
    record = layer.files()[f"{site}/{kit.dist_info}/RECORD"].decode()
    assert [line for line in record.splitlines() if "__pycache__" in line] == [
        line for line in record.splitlines() if "gone" in line
    ]
    assert layer.raw == layer_of(wheel_entries(kit.write(tmp_path), HERE, compiler=compiler)).raw


def test_a_compiler_of_another_python_is_refused(compiler: Compiler, tmp_path: Path) -> None:
    with pytest.raises(MachineLacks, match=r"for Python 3\.99") as caught:
        layer_of(wheel_entries(WheelKit().write(tmp_path), Scheme("opt/env", "3.99"), compiler=compiler))
    assert caught.value.code == "compiler-differs"


def test_a_faulty_module_is_refused_while_it_is_compiled(compiler: Compiler, tmp_path: Path) -> None:
    kit = WheelKit(files={f"m{number}.py": b"x = %d\n" % number * 5000 for number in range(50)})
    members = kit.members()
    members[40] = type(members[40])(name="m40.py", data=members[40].data, deflated=members[41].body)
    with pytest.raises(FaultyInput, match="CRC-32"):
        layer_of(wheel_entries(kit.write(tmp_path, members), HERE, compiler=compiler))
