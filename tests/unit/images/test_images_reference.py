"""Names of images (I-20)."""

from __future__ import annotations

import pytest

from procs.syncloop.images.reference import InvalidNameError, parse, with_default_tag

HEX = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("busybox", "docker.io/library/busybox"),
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("me/app", "docker.io/me/app"),
        ("docker.io/busybox", "docker.io/library/busybox"),
        ("index.docker.io/library/busybox:1", "docker.io/library/busybox:1"),
        ("localhost/app", "localhost/app"),
        ("localhost:5000/app:v1", "localhost:5000/app:v1"),
        ("registry.io/a/b/c_d__e-f.g:T_1.x-y", "registry.io/a/b/c_d__e-f.g:T_1.x-y"),
        ("[::1]:5000/app", "[::1]:5000/app"),
        ("Upper/app", "Upper/app"),
        (f"app@sha256:{HEX}", f"docker.io/library/app@sha256:{HEX}"),
        (f"r.io/app:1@sha512:{HEX}{HEX}", f"r.io/app:1@sha512:{HEX}{HEX}"),
    ],
)
def test_a_name_stands_for_a_full_one(name, full):
    """The registry and its library are filled in, and nothing else (I-20)."""
    assert str(parse(name)) == full


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "must not be empty"),
        ("a b", "invalid reference format"),
        ("me/App", "must be lowercase"),
        ("app:", "tag"),
        ("app:-x", "tag"),
        (f"app:{'x' * 129}", "tag"),
        ("app@", "digest"),
        ("app@sha256:abc", "digest"),
        (f"app@sha256:{HEX[:40]}", "invalid checksum digest"),
        (f"app@sha256:{HEX.upper()}", "invalid checksum digest"),
        (f"app@md5:{HEX[:32]}", "unsupported digest algorithm"),
        ("/app", "invalid reference format"),
        ("a//b", "invalid reference format"),
        ("-a.io/x", "invalid reference format"),
        ("https://r.io/app", "invalid reference format"),
        ("app:1:2", "tag"),
        ("x" * 256, "255"),
        (HEX, "ID"),
        ("app\n", "invalid reference format"),
    ],
)
def test_what_names_no_image_is_said(name, words):
    """A bad name is refused with a sentence that says what is bad about it (P-102)."""
    with pytest.raises(InvalidNameError, match=words):
        parse(name)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("busybox", "busybox:latest"),
        ("r.io:5000/x", "r.io:5000/x:latest"),
        ("busybox:1", "busybox:1"),
        (f"busybox@sha256:{HEX}", f"busybox@sha256:{HEX}"),
    ],
)
def test_the_runtime_is_told_the_name_as_it_is_written(name, told):
    """Only a missing tag is added: short names are the runtime's to resolve (I-20)."""
    assert with_default_tag(name) == told


def test_the_repository_is_what_credentials_are_for():
    """Neither tag nor digest is part of it."""
    assert parse(f"r.io/a:1@sha256:{HEX}").repository == "r.io/a"
