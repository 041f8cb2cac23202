"""The configuration of credential providers (I-27, I-28)."""

from __future__ import annotations

import json

import pytest

from kubelet import durations
from procs.syncloop.images.provider_config import ProviderConfigError, load

CONFIG = "kubelet.config.k8s.io/v1"
API = "credentialprovider.kubelet.k8s.io/v1"
TOKENS = {
    "serviceAccountTokenAudience": "r.io",
    "cacheType": "Token",
    "requireServiceAccount": True,
}


def provider(name="helper", **changes):
    made = {
        "name": name,
        "matchImages": ["*.r.io"],
        "defaultCacheDuration": "12h",
        "apiVersion": API,
    }
    return {k: v for k, v in (made | changes).items() if v is not None}


def document(*providers, version=CONFIG, kind="CredentialProviderConfig"):
    return json.dumps({"apiVersion": version, "kind": kind, "providers": list(providers)})


@pytest.fixture
def bin_dir(tmp_path):
    made = tmp_path / "bin"
    made.mkdir()
    for name in ("helper", "other"):
        (made / name).write_text("#!/bin/sh\n")
        (made / name).chmod(0o755)
    return made


@pytest.fixture
def problems(tmp_path, bin_dir):
    """What is wrong with a file of this text, without the file's name."""

    def find(text):
        path = tmp_path / "config.yaml"
        path.write_text(text)
        with pytest.raises(ProviderConfigError) as caught:
            load(str(path), str(bin_dir))
        return [line.replace(f"{tmp_path}/", "") for line in caught.value.problems]

    return find


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_a_file_is_read(tmp_path, bin_dir, version):
    """Every version of both kinds is taken, as JSON and as YAML (I-26)."""
    spoken = f"credentialprovider.kubelet.k8s.io/{version}"
    path = tmp_path / "config.json"
    variables = [{"name": "A", "value": "b"}]
    made = provider(apiVersion=spoken, args=["get"], env=variables)
    path.write_text(document(made, version=f"kubelet.config.k8s.io/{version}"))
    (found,) = load(str(path), str(bin_dir))
    assert (found.name, found.api_version, found.args) == ("helper", spoken, ("get",))
    assert found.env[0].value == "b"
    assert found.default_cache_ns == 12 * durations.HOUR
    path.write_text(
        f"apiVersion: {CONFIG}\nkind: CredentialProviderConfig\nproviders:\n- name: helper\n"
        f"  matchImages: ['*.r.io']\n  defaultCacheDuration: 0s\n  apiVersion: {API}\n"
    )
    assert load(str(path), str(bin_dir))[0].default_cache_ns == 0


def test_a_directory_is_read_in_the_order_of_names(tmp_path, bin_dir):
    """Only .json, .yaml and .yml count, and no directory below."""
    where = tmp_path / "configs"
    (where / "c.yaml").mkdir(parents=True)
    (where / "b.yml").write_text(document(provider("helper")))
    (where / "a.json").write_text(document(provider("other")))
    (where / "z.txt").write_text("no")
    assert [spec.name for spec in load(str(where), str(bin_dir))] == ["other", "helper"]
    (where / "d.yaml").write_text(document(provider("helper")))
    with pytest.raises(ProviderConfigError, match=r"d\.yaml: .*must be the only one of its name"):
        load(str(where), str(bin_dir))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"name": None}, 'providers[0].name: "": must be set: it is the program\'s name'),
        ({"name": "a/b"}, 'name: "a/b": must be the name of a file, without a path'),
        ({"name": ".."}, 'name: "..": must be the name of a file'),
        ({"name": "a b"}, 'name: "a b": must not have spaces'),
        ({"matchImages": None}, "matchImages: []: must have at least one pattern"),
        ({"matchImages": ["ok.io", "a b"]}, 'matchImages[1]: "a b": must be a registry'),
        ({"defaultCacheDuration": None}, "defaultCacheDuration: null: must be set"),
        ({"defaultCacheDuration": "-1s"}, 'defaultCacheDuration: "-1s": must be 0 or longer'),
        ({"defaultCacheDuration": "1 day"}, "must be a duration"),
        ({"apiVersion": "v1"}, 'apiVersion: "v1": must be one of'),
        ({"args": "x"}, "providers[0].args: must be a list, not 'x'"),
        ({"environment": []}, 'unknown field "providers[0].environment"'),
        ({"env": [{"name": "A=B", "value": "hunter2"}]}, "env[0]: <masked>: must have a name"),
        ({"tokenAttributes": TOKENS | {"cacheType": "x"}}, 'cacheType: "x": must be one of'),
        (
            {"tokenAttributes": TOKENS, "apiVersion": f"{API}beta1"},
            f"tokenAttributes: {{}}: needs apiVersion {API}",
        ),
        (
            {"tokenAttributes": {"cacheType": "Token", "requireServiceAccount": True}},
            'serviceAccountTokenAudience: "": must be set',
        ),
        (
            {"tokenAttributes": {k: v for k, v in TOKENS.items() if k != "requireServiceAccount"}},
            "requireServiceAccount: null: must be set",
        ),
        (
            {
                "tokenAttributes": TOKENS
                | {
                    "requireServiceAccount": False,
                    "requiredServiceAccountAnnotationKeys": ["a"],
                }
            },
            "needs requireServiceAccount to be true",
        ),
        (
            {
                "tokenAttributes": TOKENS
                | {
                    "requiredServiceAccountAnnotationKeys": ["a"],
                    "optionalServiceAccountAnnotationKeys": ["a"],
                }
            },
            'optionalServiceAccountAnnotationKeys[0]: "a": must be given only once',
        ),
        (
            {"tokenAttributes": TOKENS | {"optionalServiceAccountAnnotationKeys": ["-"]}},
            "must be a label key",
        ),
    ],
)
def test_each_problem_has_its_line(problems, changes, line):
    """The line names the field, its value and what is allowed (I-27, I-28)."""
    (found,) = problems(document(provider(**changes)))
    assert found.startswith("config.yaml: ")
    assert line in found
    assert "hunter2" not in found


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "config.yaml: empty file: must hold a CredentialProviderConfig"),
        (document(), "config.yaml: providers: []: must have at least one provider"),
        (document(provider(), kind="Pod"), 'kind: "Pod": must be CredentialProviderConfig'),
        (document(provider(), version="v1"), 'apiVersion: "v1": must be one of'),
        (document(provider(), provider()), "providers[1].name"),
        (document(provider("absent")), "bin/absent: must be a program that can be run"),
    ],
)
def test_a_file_that_is_none_is_said(problems, text, line):
    """What is wrong with a whole file is said, too (I-28)."""
    assert line in problems(text)[0]


def test_all_problems_are_said_at_once(problems):
    """Nobody has to find them one by one."""
    assert len(problems(document(provider(name="", matchImages=[]), provider(apiVersion="")))) == 3


def test_both_flags_are_needed(tmp_path, bin_dir):
    """Neither works without the other; without both there are no providers."""
    assert load("", "") == ()
    with pytest.raises(ProviderConfigError, match="-bin-dir: must be set"):
        load("/config", "")
    with pytest.raises(ProviderConfigError, match="-config: must be set"):
        load("", str(bin_dir))
    with pytest.raises(ProviderConfigError, match="cannot be read"):
        load(str(tmp_path / "absent"), str(bin_dir))
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ProviderConfigError, match="has no file that ends in"):
        load(str(empty), str(bin_dir))
    (tmp_path / "good.json").write_text(document(provider()))
    with pytest.raises(ProviderConfigError, match="must be a directory"):
        load(str(tmp_path / "good.json"), str(tmp_path / "absent"))
