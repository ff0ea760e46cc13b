from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from wheels_kit import HOST, Talk, Upstream, backend_source, constraint, make_sdist, make_wheel, request, resolver_for

from envlock.digest import Digest
from envlock.errors import EnvlockError, FaultyInput, MachineLacks, Unsatisfiable
from envlock.lock.model import LockedWheel
from envlock.lock.wheels.resolve import Resolution
from envlock.platforms import Platform
from envlock.spec.model import IndexSpec

TAG = f"cp{HOST.replace('.', '')}"
both = pytest.mark.parametrize("resolver", ["uv", "pip-tools"])


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """app -> lib, and an extra of app -> gpu; lib in two versions, the newer one for Windows alone."""
    folder = tmp_path / "packages"
    make_wheel(folder, "app", "1.0", requires=("lib>=1", 'gpu; extra == "cuda"', 'old; python_version < "3"'))
    make_wheel(folder, "lib", "1.0", tags=f"{TAG}-{TAG}-manylinux_2_17_x86_64")
    make_wheel(folder, "lib", "1.0", tags=f"{TAG}-{TAG}-manylinux_2_28_x86_64")
    make_wheel(folder, "lib", "1.0", tags=f"{TAG}-{TAG}-manylinux_2_99_x86_64")
    make_wheel(folder, "lib", "2.0", tags=f"{TAG}-{TAG}-win_amd64")
    make_wheel(folder, "gpu", "3.0+cu1")
    return folder


def names(resolution: Resolution) -> list[str]:
    return [f"{wheel.name}=={wheel.version}" for wheel in resolution.wheels]


def fault(tmp_path: Path, index: str, *requirements: str, **more: object) -> EnvlockError:
    with pytest.raises(EnvlockError) as caught:
        resolver_for(tmp_path, index).resolve(request(*requirements, **more))
    return caught.value


@both
def test_a_lock_has_file_size_hash_and_needs_of_each_wheel(resolver: str, packages: Path, tmp_path: Path) -> None:
    with Upstream(packages) as index:
        found = resolver_for(tmp_path, index.url).resolve(
            request("app[cuda]", 'old; python_version < "3"', resolver=resolver)
        )
    file = packages / f"lib-1.0-{TAG}-{TAG}-manylinux_2_28_x86_64.whl"
    assert names(found) == ["app==1.0", "gpu==3.0+cu1", "lib==1.0"]
    assert found.resolver == resolver
    assert found.wheels[2] == LockedWheel(
        name="lib",
        version="1.0",
        file=file.name,
        size=file.stat().st_size,
        sha256=Digest.of_file(file),
        index="default",
        platforms=(Platform.AMD64,),
    )
    assert found.wheels[0].requested
    assert found.wheels[0].requires == ("gpu", "lib")


def test_both_resolvers_give_the_same_lock_of_the_same_indexes(packages: Path, tmp_path: Path) -> None:
    for name, version in (("my-source", "1.0"), ("my-source", "2.0")):
        make_sdist(packages, name, version, backend_source(name, version, requires=("lib",)))
    wanted = {"allow_sdist": frozenset({"my-source"})}
    with Upstream(packages) as index:
        locks = [
            resolver_for(tmp_path / name, index.url).resolve(
                request("app[cuda]", "my-source", resolver=name, **wanted)
            )
            for name in ("uv", "pip-tools")
        ]
    assert locks[0].wheels == locks[1].wheels
    assert "my-source==2.0" in names(locks[0])


def test_no_wheel_is_fetched_for_being_locked(packages: Path, tmp_path: Path) -> None:
    for name in ("uv", "pip-tools"):
        with Upstream(packages) as index:
            resolver_for(tmp_path / name, index.url).resolve(request("app[cuda]", resolver=name))
            assert not [path for path in index.asked if path.endswith(".whl")]


def test_where_an_index_gives_neither_hash_nor_metadata_the_wheel_is_fetched_once(
    packages: Path, tmp_path: Path
) -> None:
    with Upstream(packages, hashes=False, metadata=False) as index:
        resolver = resolver_for(tmp_path, index.url)
        found = resolver.resolve(request("app"))
        assert {wheel.hash_source for wheel in found.wheels} == {"computed"}
        assert found.wheels[0].sha256 == Digest.of_file(packages / found.wheels[0].file)
        kept = request("app", pins={"app": "1.0", "lib": "1.0"}, previous=found.wheels)
        assert resolver_for(tmp_path / "empty", index.url).resolve(kept) == found


@both
def test_pins_stay_until_they_are_let_go(resolver: str, packages: Path, tmp_path: Path) -> None:
    with Upstream(packages) as index:
        first = resolver_for(tmp_path / "1", index.url).resolve(request("app", resolver=resolver))
        make_wheel(packages, "lib", "3.0")
        make_wheel(packages, "app", "4.0", requires=("lib",))
        pins = {wheel.name: wheel.version for wheel in first.wheels}
        kept = resolver_for(tmp_path / "2", index.url).resolve(request("app", resolver=resolver, pins=pins))
        assert kept == first
        del pins["lib"]
        upgraded = resolver_for(tmp_path / "3", index.url).resolve(request("app", resolver=resolver, pins=pins))
        assert names(upgraded) == ["app==1.0", "lib==3.0"]


@both
def test_a_pin_that_is_gone_is_told_and_replaced(resolver: str, packages: Path, tmp_path: Path) -> None:
    talk = Talk()
    with Upstream(packages) as index:
        wanted = request("app", resolver=resolver, pins={"lib": "0.5", "unheard-of": "1.0"})
        found = resolver_for(tmp_path, index.url, talk=talk).resolve(wanted)
    assert names(found) == ["app==1.0", "lib==1.0"]
    assert talk.lines == ["lib 0.5 was locked and cannot be any more; 1.0 takes its place"]


@both
def test_constraints_hold_and_are_decided_for_the_target(resolver: str, packages: Path, tmp_path: Path) -> None:
    make_wheel(packages, "lib", "0.9")
    make_wheel(packages, "app", "0.1", requires=("lib",))
    constraints = (constraint("lib[x]<1"), constraint('app<0.1; platform_machine == "aarch64"'))
    with Upstream(packages) as index:
        found = resolver_for(tmp_path, index.url).resolve(request("app", resolver=resolver, constraints=constraints))
    assert names(found) == ["app==0.1", "lib==0.9"]


@both
def test_a_source_only_package_is_refused_with_the_line_to_add(resolver: str, packages: Path, tmp_path: Path) -> None:
    make_sdist(packages, "jieba", "0.42", backend_source("jieba", "0.42"))
    with Upstream(packages) as index:
        make_sdist(packages, "pathtools", "0.1", backend_source("pathtools", "0.1"))
        wanted = ("app", "jieba", "pathtools")
        told = fault(tmp_path, index.url, *wanted, resolver=resolver, allow_sdist=frozenset({"other"}))
    assert isinstance(told, Unsatisfiable)
    assert told.code == "no-resolution"
    assert 'allow-sdist = ["jieba", "other", "pathtools"]' in told.hint


@both
def test_a_wheel_for_a_newer_base_is_a_fault_that_says_so(resolver: str, packages: Path, tmp_path: Path) -> None:
    make_wheel(packages, "new", "1.0", tags="py3-none-manylinux_2_40_x86_64")
    with Upstream(packages) as index:
        told = fault(tmp_path, index.url, "new", resolver=resolver)
    assert "needs glibc 2.40, and the base has 2.36" in told.message


def test_a_newer_version_that_does_not_fit_is_told_of(packages: Path, tmp_path: Path) -> None:
    make_wheel(packages, "gpu", "4.0", tags="py3-none-manylinux_2_40_x86_64")
    make_wheel(packages, "gpu", "5.0rc1", tags="py3-none-manylinux_2_99_x86_64")
    talk = Talk()
    with Upstream(packages) as index:
        resolver_for(tmp_path, index.url, talk=talk).resolve(request("gpu", "app"))
        resolver_for(tmp_path, index.url, talk=talk).resolve(request("gpu<4", "app"))
    file = "gpu-4.0-py3-none-manylinux_2_40_x86_64.whl"
    assert talk.lines == [f"gpu 3.0+cu1 is locked, as the newer {file} needs glibc 2.40, and the base has 2.36"]


def test_any_source_will_do_where_pure_ones_are_allowed(packages: Path, tmp_path: Path) -> None:
    make_sdist(packages, "jieba", "0.42", backend_source("jieba", "0.42"))
    with Upstream(packages) as index:
        found = resolver_for(tmp_path, index.url).resolve(request("jieba", allow_pure_sdist=True))
        assert found.wheels[0].index == "built"
        make_sdist(packages, "fast", "1.0", backend_source("fast", "1.0", tag="cp311-cp311-linux_x86_64"))
        told = fault(tmp_path, index.url, "fast", allow_pure_sdist=True)
    assert told.code == "needs-compiler"
    assert "fast" in told.message


def build_requires_setup(packages: Path) -> None:
    make_wheel(packages, "helper", "1.0", requires=("deeper",))
    make_wheel(packages, "deeper", "1.0", files={"deeper.py": "x = 1\n"})
    files = backend_source("jieba", "0.42", build_requires=("helper>=1",), before="import helper, deeper")
    make_sdist(packages, "jieba", "0.42", files)


def test_build_requirements_are_locked_with_hashes_and_kept(packages: Path, tmp_path: Path) -> None:
    build_requires_setup(packages)
    with Upstream(packages) as index:
        first = resolver_for(tmp_path / "1", index.url).resolve(request("jieba", allow_pure_sdist=True))
        built = first.wheels[0].built_from
        assert built is not None
        assert [(each.name, each.version, each.index) for each in built.requires] == [
            ("deeper", "1.0", "default"),
            ("helper", "1.0", "default"),
        ]
        assert built.requires[1].sha256 == Digest.of_file(packages / built.requires[1].file)
        make_wheel(packages, "helper", "2.0", requires=("deeper",))
        kept = request("jieba", allow_pure_sdist=True, pins={"jieba": "0.42"}, previous=first.wheels)
        assert resolver_for(tmp_path / "2", index.url).resolve(kept) == first
        fresh = resolver_for(tmp_path / "3", index.url).resolve(request("jieba", allow_pure_sdist=True))
    assert fresh.wheels[0].built_from is not None
    assert fresh.wheels[0].built_from.requires[1].version == "2.0"


def test_constraints_bound_what_is_built_with(packages: Path, tmp_path: Path) -> None:
    build_requires_setup(packages)
    make_wheel(packages, "helper", "2.0", requires=("deeper",))
    wanted = request("jieba", allow_pure_sdist=True, constraints=(constraint("helper<2"),))
    with Upstream(packages) as index:
        built = resolver_for(tmp_path, index.url).resolve(wanted).wheels[0].built_from
    assert built is not None
    assert built.requires[1].version == "1.0"


def test_build_requirements_that_cannot_be_had_are_told(packages: Path, tmp_path: Path) -> None:
    make_sdist(packages, "jieba", "0.42", backend_source("jieba", "0.42", build_requires=("nowhere-to-be-found",)))
    with Upstream(packages) as index:
        told = fault(tmp_path, index.url, "jieba", allow_pure_sdist=True)
    assert told.code == "build-needs"
    assert "nowhere-to-be-found" in told.message
    assert "jieba-0.42.tar.gz" in told.message


def test_another_machine_rebuilds_the_same_bytes(packages: Path, tmp_path: Path) -> None:
    build_requires_setup(packages)
    with Upstream(packages) as index:
        first = resolver_for(tmp_path / "1", index.url)
        wheel = first.resolve(request("jieba", allow_pure_sdist=True)).wheels[0]
        there = resolver_for(tmp_path / "2" / "elsewhere", index.url)
        assert Digest.of_file(there.rebuild(wheel)) == wheel.sha256
        with pytest.raises(EnvlockError) as caught:
            resolver_for(tmp_path / "3", index.url).rebuild(replace(wheel, sha256=Digest("0" * 64)))
        assert caught.value.code == "build-differs"
        assert wheel.file in caught.value.message
        assert wheel.built_from is not None
        odd = replace(wheel.built_from.requires[0], file="deeper-1.0-cp27-cp27m-win32.whl")
        unfit = replace(wheel, sha256=Digest("1" * 64), built_from=replace(wheel.built_from, requires=(odd,)))
        with pytest.raises(MachineLacks) as lacking:
            there.rebuild(unfit)
        assert lacking.value.code == "build-requirement-unfit"


def test_exclude_newer_holds_for_builds_too(packages: Path, tmp_path: Path) -> None:
    build_requires_setup(packages)
    make_wheel(packages, "helper", "2.0", requires=("deeper",))
    times = {file.name: {"upload-time": "2026-01-01T00:00:00Z"} for file in packages.iterdir()}
    times |= {f"{name}.whl": {"upload-time": "2026-06-01T00:00:00Z"} for name in ("helper-2.0-py3-none-any",)}
    wanted = request("jieba", allow_pure_sdist=True, exclude_newer="2026-03-01T00:00:00Z")
    with Upstream(packages, extra=times) as index:  # type: ignore[arg-type]  # dict is invariant
        built = resolver_for(tmp_path, index.url).resolve(wanted).wheels[0].built_from
    assert built is not None
    assert built.requires[1].version == "1.0"


@both
def test_a_yanked_version_is_taken_only_when_named(resolver: str, packages: Path, tmp_path: Path) -> None:
    make_wheel(packages, "gpu", "4.0")
    extra: dict[str, dict[str, object]] = {"gpu-4.0-py3-none-any.whl": {"yanked": "oops"}}
    with Upstream(packages, extra=extra) as index:
        resolve = resolver_for(tmp_path, index.url).resolve
        assert names(resolve(request("gpu", resolver=resolver))) == ["gpu==3.0+cu1"]
        assert names(resolve(request("gpu==4.0", resolver=resolver))) == ["gpu==4.0"]
        assert names(resolve(request("gpu", resolver=resolver, pins={"gpu": "4.0"}))) == ["gpu==4.0"]


@both
def test_pre_releases_are_taken_when_named_or_needed(resolver: str, packages: Path, tmp_path: Path) -> None:
    make_wheel(packages, "gpu", "5.0rc1")
    make_wheel(packages, "early", "1.0a1")
    with Upstream(packages) as index:
        resolve = resolver_for(tmp_path, index.url).resolve
        assert names(resolve(request("gpu", resolver=resolver))) == ["gpu==3.0+cu1"]
        assert names(resolve(request("gpu>=5.0rc1", resolver=resolver))) == ["gpu==5.0rc1"]
        assert names(resolve(request("early", resolver=resolver))) == ["early==1.0a1"]


@both
def test_the_spec_s_own_index_serves_its_packages_alone(resolver: str, packages: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cu"
    make_wheel(folder, "gpu", "2.0+cu9")
    make_wheel(folder, "lib", "9.0")
    spec = IndexSpec(name="cu", url=str(folder), packages=frozenset({"gpu"}))
    late = IndexSpec(name="late", url=str(make_wheel(tmp_path / "late", "only-here", "1.0").parent))
    with Upstream(packages) as index:
        resolver_ = resolver_for(tmp_path, index.url, spec_indexes=(spec, late))
        found = resolver_.resolve(request("app[cuda]", "only-here", resolver=resolver))
        assert [(wheel.name, wheel.version, wheel.index) for wheel in found.wheels] == [
            ("app", "1.0", "default"),
            ("gpu", "2.0+cu9", "cu"),
            ("lib", "1.0", "default"),
            ("only-here", "1.0", "late"),
        ]
        assert {wheel.hash_source for wheel in found.wheels if wheel.index != "default"} == {"computed"}
        moved = resolver_.resolve(request("app", resolver=resolver, alone={"lib": "cu"}))
        assert names(moved) == ["app==1.0", "lib==9.0"]


def test_a_wheel_by_its_url_is_locked_with_its_hash(packages: Path, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "elsewhere", "lib", "7.0", tags="py3-none-linux_x86_64")
    with Upstream(packages) as index, Upstream(wheel.parent) as other:
        url = other.file_url(wheel)
        found = resolver_for(tmp_path, index.url).resolve(request("app", f"lib @ {url}"))
        locked = found.wheels[1]
        assert (locked.version, locked.index, locked.direct_url) == ("7.0", "direct", url)
        assert locked.sha256 == Digest.of_file(wheel)
        hashed = f"lib @ {url}#sha256={'0' * 64}"
        assert fault(tmp_path / "x", index.url, hashed).code == "hash-mismatch"

        make_wheel(wheel.parent, "lib", "7.0", tags="py3-none-linux_x86_64", files={"lib.py": "changed\n"})
        pins = {each.name: each.version for each in found.wheels}
        told = fault(tmp_path / "y", index.url, "app", f"lib @ {url}", pins=pins, previous=found.wheels)
        assert told.code == "direct-changed"
        assert "--upgrade-package lib" in told.hint
        del pins["lib"]
        anew = request("app", f"lib @ {url}", pins=pins, previous=found.wheels)
        assert resolver_for(tmp_path / "z", index.url).resolve(anew).wheels[1].sha256 == Digest.of_file(wheel)


def test_no_credentials_come_into_a_lock(packages: Path, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "elsewhere", "lib", "7.0")
    with Upstream(packages) as index, Upstream(wheel.parent) as other:
        url = other.file_url(wheel)
        secret = url.replace("http://", "http://me:secret@")
        found = resolver_for(tmp_path, index.url).resolve(request(f"lib @ {secret}"))
    assert found.wheels[0].direct_url == url


def test_a_local_wheel_is_locked_by_its_path_from_the_spec(packages: Path, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "spec" / "wheels", "lib", "7.0")
    wanted = request("app", f"lib @ {wheel.as_uri()}", spec_folder=tmp_path / "spec" / "env")
    with Upstream(packages) as index:
        locked = resolver_for(tmp_path, index.url).resolve(wanted).wheels[1]
    assert (locked.index, locked.path, locked.direct_url) == ("local", "../wheels/lib-7.0-py3-none-any.whl", None)
    assert locked.sha256 == Digest.of_file(wheel)


def test_direct_files_that_do_not_fit_are_told(packages: Path, tmp_path: Path) -> None:
    windows = make_wheel(tmp_path / "w", "lib", "7.0", tags="py3-none-win_amd64")
    newer = make_wheel(tmp_path / "w", "lib", "8.0", requires_python=">=3.99")
    with Upstream(packages) as index:
        told = fault(tmp_path, index.url, f"lib @ {windows.as_uri()}")
        assert (told.code, "is for Windows" in told.message) == ("wheel-misfit", True)
        told = fault(tmp_path, index.url, f"lib @ {newer.as_uri()}")
        assert (told.code, "wants Python >=3.99" in told.message) == ("wheel-misfit", True)
        for place in (f"other @ {newer.as_uri()}", f"lib @ {tmp_path.as_uri()}", "lib @ file:///nowhere/x.whl"):
            assert fault(tmp_path, index.url, place).code == "direct-url"
        assert fault(tmp_path, index.url, f"lib @ {index.url}page.html").code == "direct-url"
        twice = (f"lib @ {newer.as_uri()}", f"lib @ {windows.as_uri()}")
        assert "two places" in fault(tmp_path, index.url, *twice).message


def test_a_source_by_its_url_is_built(packages: Path, tmp_path: Path) -> None:
    sdist = make_sdist(tmp_path / "elsewhere", "lib", "7.0", backend_source("lib", "7.0"))
    with Upstream(packages) as index, Upstream(sdist.parent) as other:
        url = other.file_url(sdist)
        locked = resolver_for(tmp_path, index.url).resolve(request(f"lib @ {url}")).wheels[0]
        assert (locked.index, locked.direct_url) == ("built", url)
        assert locked.built_from is not None
        assert (locked.built_from.index, locked.built_from.url) == ("direct", url)
        assert Digest.of_file(resolver_for(tmp_path / "there", index.url).rebuild(locked)) == locked.sha256


def test_what_a_direct_wheel_wants_from_a_place_must_be_named(packages: Path, tmp_path: Path) -> None:
    lib = make_wheel(tmp_path / "w", "lib", "7.0")
    top = make_wheel(tmp_path / "w", "top", "1.0", requires=(f"lib @ {lib.as_uri()}",))
    with Upstream(packages) as index:
        told = fault(tmp_path, index.url, f"top @ {top.as_uri()}")
        assert told.code == "url-dependency"
        assert f'"lib @ {lib.as_uri()}"' in told.hint
        named = request(f"top @ {top.as_uri()}", f"lib @ {lib.as_uri()}")
        assert names(resolver_for(tmp_path, index.url).resolve(named)) == ["lib==7.0", "top==1.0"]


def test_a_broken_index_is_told_and_not_taken_for_no_resolution(packages: Path, tmp_path: Path) -> None:
    with Upstream(packages) as index:
        url = index.url
    told = fault(tmp_path, url, "app")
    assert isinstance(told, MachineLacks)
    assert told.code == "unreachable"


def test_a_wheel_that_is_not_sound_is_told(packages: Path, tmp_path: Path) -> None:
    (packages / "bad-1.0-py3-none-any.whl").write_bytes(b"no zip")
    with Upstream(packages, metadata=False) as index:
        told = fault(tmp_path, index.url, "bad")
    assert told.code == "wheel-faulty"
    assert "bad-1.0-py3-none-any.whl" in told.message


def test_unknown_resolvers_and_indexes_are_faults(packages: Path, tmp_path: Path) -> None:
    assert fault(tmp_path, str(packages), "app", resolver="poetry").code == "no-such-resolver"
    assert fault(tmp_path, str(packages), "app", alone={"app": "cu"}).code == "no-such-index"


def test_a_folder_of_wheels_is_an_index_too(packages: Path, tmp_path: Path) -> None:
    found = resolver_for(tmp_path, str(packages)).resolve(request("app"))
    assert names(found) == ["app==1.0", "lib==1.0"]
    assert found.wheels[0].sha256.hex == hashlib.sha256((packages / found.wheels[0].file).read_bytes()).hexdigest()


def test_two_runs_give_the_same(packages: Path, tmp_path: Path) -> None:
    make_sdist(packages, "jieba", "0.42", backend_source("jieba", "0.42"))
    with Upstream(packages) as index:
        runs = [
            resolver_for(tmp_path / str(run), index.url).resolve(request("app[cuda]", "jieba", allow_pure_sdist=True))
            for run in range(2)
        ]
    assert runs[0] == runs[1]


def test_a_locked_source_that_is_not_there_any_more_is_told(packages: Path, tmp_path: Path) -> None:
    make_sdist(packages, "jieba", "0.42", backend_source("jieba", "0.42"))
    with Upstream(packages) as index:
        wheel = resolver_for(tmp_path, index.url).resolve(request("jieba", allow_pure_sdist=True)).wheels[0]
        (packages / "jieba-0.42.tar.gz").unlink()
        make_wheel(packages, "jieba", "9.0")
        with pytest.raises(FaultyInput) as caught:
            resolver_for(tmp_path / "there", index.url).rebuild(wheel)
    assert caught.value.code == "artefact-gone"
    shutil.rmtree(packages)
