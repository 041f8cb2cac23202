"""Files: strict decoding, drop-ins, defaults, precedence, and every class of bad input."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubelet import config
from kubelet.config import documents, layers

CONF = "conf.d"


def test_flag_wins_over_file(files):
    """C-1: the command line is read again over the file."""
    loaded = files.load("maxPods: 5\nport: 1234\n", "--max-pods=7").config
    assert loaded.int("maxPods") == 7
    assert loaded.int("port") == 1234
    assert loaded.origin("maxPods") == "flag --max-pods"
    assert loaded.origin("port") == f"file {files.root}/kubelet.yaml"
    assert loaded.origin("syncFrequency") == "default"


def test_feature_gates_merge_by_name(files):
    """C-1: the file's gates stay unless the flag names them too."""
    loaded = files.load(
        "featureGates: {EventedPLEG: true, QOSReserved: true}\n",
        "--feature-gates=QOSReserved=false,EnvFiles=false",
    ).config
    assert loaded.get("featureGates") == {
        "EventedPLEG": True,
        "QOSReserved": False,
        "EnvFiles": False,
    }


def test_other_maps_are_replaced_by_the_flag(files):
    """A map flag replaces the file's map as a whole."""
    loaded = files.load("systemReserved: {cpu: 1}\n".replace("1", "'1'"), "--system-reserved=pid=9")
    assert loaded.config.get("systemReserved") == {"pid": "9"}


def test_legacy_baseline_only_without_a_file(files):
    """C-3: without --config the old defaults hold, with it the new ones."""
    names = ("authentication.anonymous.enabled", "authentication.webhook.enabled")
    bare = config.load([]).config
    assert [bare.bool(name) for name in names] == [True, False]
    assert (bare.str("authorization.mode"), bare.int("readOnlyPort")) == ("AlwaysAllow", 10255)
    filed = files.load("").config
    assert [filed.bool(name) for name in names] == [False, True]
    assert (filed.str("authorization.mode"), filed.int("readOnlyPort")) == ("Webhook", 0)


def test_legacy_baseline_stays_under_drop_ins(files):
    """C-3: --config-dir alone does not change the baseline."""
    files.write("maxPods: 9\n", f"{CONF}/a.conf")
    loaded = config.load([f"--config-dir={files.root / CONF}"]).config
    assert (loaded.int("maxPods"), loaded.int("readOnlyPort")) == (9, 10255)
    assert "readOnlyPort" not in loaded.changed


def test_drop_ins_merge_in_order(files):
    """C-4: recursive, by name, only *.conf; maps merge, lists replace, null removes."""
    files.write(
        "maxPods: 1\nclusterDNS: ['1.1.1.1']\nsystemReserved: {cpu: '1'}\nport: 2000\n"
        "authentication: {anonymous: {enabled: true}}\n",
        f"{CONF}/10.conf",
    )
    files.write("maxPods: 2\nclusterDNS: ['2.2.2.2']\n", f"{CONF}/20/x.conf")
    files.write("systemReserved: {pid: '5'}\nport: null\nauthentication: null\n", f"{CONF}/30.conf")
    files.write("this is: [not, yaml", f"{CONF}/40.yaml")
    loaded = files.load("maxPods: 9\n", f"--config-dir={files.root / CONF}").config
    assert loaded.int("maxPods") == 2
    assert loaded.get("clusterDNS") == ["2.2.2.2"]
    assert loaded.get("systemReserved") == {"cpu": "1", "pid": "5"}
    assert loaded.int("port") == 10250
    assert loaded.bool("authentication.anonymous.enabled") is False
    assert loaded.origin("maxPods") == f"file {files.root}/{CONF}/20/x.conf"


def test_drop_in_removes_a_map_key(files):
    """C-4: null removes one key of a map."""
    files.write("evictionHard: {memory.available: null}\n", f"{CONF}/a.conf")
    loaded = files.load(
        "evictionHard: {memory.available: 1Gi, pid.available: '100'}\n",
        f"--config-dir={files.root / CONF}",
    ).config
    assert loaded.get("evictionHard") == {"pid.available": "100"}


def test_drop_ins_must_say_what_they_are(files):
    """C-4: each drop-in carries apiVersion and kind."""
    files.write("maxPods: 2\n", f"{CONF}/a.conf", head=False)
    found = files.problems("", f"--config-dir={files.root / CONF}")
    where = f"{CONF}/a.conf"
    assert found == [
        f'{where}: apiVersion: null: must be set, to "kubelet.config.k8s.io/v1beta1"',
        f'{where}: kind: null: must be set, to "KubeletConfiguration"',
    ]


def test_missing_drop_in_directory(files):
    """A directory that is not there is an error."""
    found = files.problems("", "--config-dir=/nonexistent")
    assert found == ['--config-dir: config-dir: "/nonexistent": No such file or directory']


def test_eviction_defaults(files):
    """C-5: not set means the default map, set means as it is, merge fills in."""
    standard = files.load("").config.get("evictionHard")
    assert standard["memory.available"] == "100Mi"
    one = "evictionHard: {memory.available: 1Gi}\n"
    assert files.load(one).config.get("evictionHard") == {"memory.available": "1Gi"}
    merged = files.load(one + "mergeDefaultEvictionSettings: true\n").config.get("evictionHard")
    assert merged == standard | {"memory.available": "1Gi"}
    assert files.load("evictionHard: {}\n").config.get("evictionHard") == {}


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ("staticPodPath", "staticPodPath"),
        ("tlsCertFile", "tlsCertFile"),
        ("tlsPrivateKeyFile", "tlsPrivateKeyFile"),
        ("resolvConf", "resolvConf"),
        ("volumePluginDir", "volumePluginDir"),
        ("podLogsDir", "podLogsDir"),
        ("authentication: {x509: {clientCAFile", "authentication.x509.clientCAFile"),
    ],
)
def test_relative_paths(files, field, path):
    """C-7: a relative path is relative to its file; an absolute one stays."""
    close = "}" * field.count("{")
    relative = files.load(f"{field}: sub/../x{close}\n").config
    assert relative.str(path) == f"{files.root}/x"
    assert files.load(f"{field}: /x/y{close}\n").config.str(path) == "/x/y"


def test_relative_path_by_flag_is_left_alone():
    """C-7 speaks of files only."""
    assert config.load(["--pod-manifest-path=x"]).config.str("staticPodPath") == "x"


def test_zero_means_not_set_where_go_cannot_tell(files):
    """A zero in the file gives the default for fields whose Go type has no "unset"."""
    loaded = files.load(
        "maxPods: 0\nsyncFrequency: 0s\naddress: ''\nauthorization: {mode: ''}\n"
        "registryPullQPS: 0\nhealthzPort: 0\n"
    ).config
    assert loaded.int("maxPods") == 110
    assert loaded.str("syncFrequency") == "1m0s"
    assert loaded.str("address") == "0.0.0.0"
    assert loaded.str("authorization.mode") == "Webhook"
    assert loaded.int("registryPullQPS") == 0
    assert loaded.int("healthzPort") == 0
    assert "maxPods" not in loaded.changed


def test_kubeadm_file(files):
    """K-5: the file that kubeadm writes, with its many zeros, loads as it is."""
    loaded = files.load(
        "authentication: {anonymous: {enabled: false}, webhook: {cacheTTL: 0s, enabled: true}, "
        "x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}\n"
        "authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 0s, "
        "cacheUnauthorizedTTL: 0s}}\n"
        "cgroupDriver: systemd\nclusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\n"
        'containerRuntimeEndpoint: ""\ncpuManagerReconcilePeriod: 0s\ncrashLoopBackOff: {}\n'
        "evictionPressureTransitionPeriod: 0s\nfileCheckFrequency: 0s\n"
        "healthzBindAddress: 127.0.0.1\nhealthzPort: 10248\nhttpCheckFrequency: 0s\n"
        "imageMaximumGCAge: 0s\nimageMinimumGCAge: 0s\n"
        "logging:\n  flushFrequency: 0\n  options:\n    json:\n      infoBufferSize: '0'\n"
        "    text:\n      infoBufferSize: '0'\n  verbosity: 0\n"
        "memorySwap: {}\nnodeStatusReportFrequency: 0s\nnodeStatusUpdateFrequency: 0s\n"
        "rotateCertificates: true\nruntimeRequestTimeout: 0s\nshutdownGracePeriod: 0s\n"
        "shutdownGracePeriodCriticalPods: 0s\nstaticPodPath: /etc/kubernetes/manifests\n"
        "streamingConnectionIdleTimeout: 0s\nsyncFrequency: 0s\nvolumeStatsAggPeriod: 0s\n"
    )
    assert loaded.warnings == ()
    assert loaded.config.str("nodeStatusReportFrequency") == "5m0s"
    assert loaded.config.str("logging.flushFrequency") == "5s"
    assert loaded.config.str("containerRuntimeEndpoint").endswith("containerd.sock")


@pytest.mark.parametrize(
    ("text", "report"),
    [
        ("", "5m0s"),
        ("nodeStatusUpdateFrequency: 20s\n", "20s"),
        ("nodeStatusUpdateFrequency: 20s\nnodeStatusReportFrequency: 1m\n", "1m0s"),
    ],
)
def test_status_report_follows_update(files, text, report):
    """Table 1.3: the report frequency follows an explicit update frequency."""
    assert files.load(text).config.str("nodeStatusReportFrequency") == report


@pytest.mark.parametrize(("pulls", "serialize"), [(None, True), (1, True), (2, False), (9, False)])
def test_parallel_pulls_turn_serialisation_off(files, pulls, serialize):
    """Table 1.3: two or more parallel pulls mean that pulls are not one by one."""
    text = "" if pulls is None else f"maxParallelImagePulls: {pulls}\n"
    assert files.load(text).config.bool("serializeImagePulls") is serialize


@pytest.mark.parametrize(
    ("text", "flag", "value"),
    [("", "true", True), ("seccompDefault: true\n", "false", True), ("", "false", False)],
)
def test_seccomp_default_is_either(files, text, flag, value):
    """Table 1.2: the flag and the field are OR-ed."""
    loaded = files.load(text, f"--seccomp-default={flag}").config
    assert loaded.bool("seccompDefault") is value


def test_json_file(files):
    """The file may be JSON, with escapes that YAML does not know."""
    body = {
        "apiVersion": layers.API_VERSION,
        "kind": layers.KIND,
        "maxPods": 3,
        "providerID": "\U0001f600",
    }
    path = files.write(json.dumps(body, indent="\t"), "k.json", head=False)
    loaded = config.load([f"--config={path}", "--kubeconfig=/k"]).config
    assert (loaded.int("maxPods"), loaded.str("providerID")) == (3, "\U0001f600")


def test_yaml_as_kubernetes_reads_it(files):
    """Anchors, merge keys, octal and dates are read as Kubernetes' own YAML reader does."""
    loaded = files.load(
        "maxPods: 0x10\npodsPerCore: 010\nproviderID: 2020-01-01\nclusterDomain: 1:30\n"
        "systemReserved: &r {cpu: '1', pid: '2'}\nkubeReserved: {<<: *r, pid: '3'}\n"
        "registryPullQPS: 1e1\n"
    ).config
    assert (loaded.int("maxPods"), loaded.int("podsPerCore")) == (16, 8)
    assert (loaded.str("providerID"), loaded.str("clusterDomain")) == ("2020-01-01", "1:30")
    assert loaded.get("kubeReserved") == {"cpu": "1", "pid": "3"}
    assert loaded.int("registryPullQPS") == 10


def test_structures(files):
    """Lists of structures are read member by member."""
    loaded = files.load(
        "registerWithTaints: [{key: a, effect: NoSchedule}]\n"
        "reservedMemory: [{numaNode: 0, limits: {memory: 1024Mi}}]\n"
        "shutdownGracePeriodByPodPriority: [{priority: 5, shutdownGracePeriodSeconds: 10}]\n"
        "logging: {vmodule: [{filePattern: x, verbosity: 3}], flushFrequency: 1000000000}\n"
    ).config
    assert loaded.get("registerWithTaints") == [{"key": "a", "effect": "NoSchedule"}]
    assert loaded.get("reservedMemory") == [{"numaNode": 0, "limits": {"memory": "1Gi"}}]
    assert loaded.get("logging.vmodule") == [{"filePattern": "x", "verbosity": 3}]
    assert loaded.str("logging.flushFrequency") == "1s"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("maxPod: 5\n", 'kubelet.yaml:3: maxPod: 5: unknown field; did you mean "maxPods"?'),
        ("zzzzzz: 5\n", "kubelet.yaml:3: zzzzzz: 5: unknown field"),
        (
            "logging: {options: {text: {x: 1}}}\n",
            "kubelet.yaml:3: logging.options.text.x: 1: unknown field",
        ),
        ("maxPods: 5\nmaxPods: 6\n", "kubelet.yaml:4: maxPods: duplicate: must be given only once"),
        (
            "featureGates: {EventedPLEG: true, EventedPLEG: false}\n",
            "kubelet.yaml:3: featureGates.EventedPLEG: duplicate: must be given only once",
        ),
        (
            "maxPods: ten\n",
            ('kubelet.yaml:3: maxPods: "ten": must be an integer from -2147483648 to 2147483647'),
        ),
        (
            "maxPods: 1.5\n",
            ("kubelet.yaml:3: maxPods: 1.5: must be an integer from -2147483648 to 2147483647"),
        ),
        (
            "maxPods: true\n",
            ("kubelet.yaml:3: maxPods: true: must be an integer from -2147483648 to 2147483647"),
        ),
        ("failSwapOn: 'false'\n", 'kubelet.yaml:3: failSwapOn: "false": must be true or false'),
        ("address: 5\n", "kubelet.yaml:3: address: 5: must be an IPv4 or IPv6 address"),
        (
            "syncFrequency: 5\n",
            (
                "kubelet.yaml:3: syncFrequency: 5: must be a duration such as "
                '"300ms", "1m30s" or "2h"'
            ),
        ),
        (
            "syncFrequency: ''\n",
            (
                'kubelet.yaml:3: syncFrequency: "": must be a duration such as '
                '"300ms", "1m30s" or "2h"'
            ),
        ),
        ("clusterDNS: 10.0.0.1\n", 'kubelet.yaml:3: clusterDNS: "10.0.0.1": must be a list'),
        ("clusterDNS: [1, a, 2]\n", "kubelet.yaml:3: clusterDNS[2]: 2: must be a string"),
        (
            "systemReserved: {cpu: 1}\n",
            (
                "kubelet.yaml:3: systemReserved[cpu]: 1: must be a quantity "
                'such as "500m", "1.5Gi" or "2e3", in quotes'
            ),
        ),
        ("systemReserved: [cpu]\n", 'kubelet.yaml:3: systemReserved: ["cpu"]: must be a map'),
        (
            "authentication: true\n",
            ("kubelet.yaml:3: authentication: true: must be a map with x509, webhook, anonymous"),
        ),
        (
            "authentication:\n  webhook:\n    enabled: 7\n",
            "kubelet.yaml:5: authentication.webhook.enabled: 7: must be true or false",
        ),
        (
            "registerWithTaints: [{kee: a, effect: NoSchedule}]\n",
            (
                'kubelet.yaml:3: registerWithTaints[0].kee: "a": unknown field (known: key, value, '
                'effect, timeAdded); did you mean "key"?'
            ),
        ),
        (
            "registerWithTaints: [5]\n",
            (
                "kubelet.yaml:3: registerWithTaints[0]: 5: must be a map "
                "with key, value, effect, timeAdded"
            ),
        ),
        (
            "memoryThrottlingFactor: .nan\n",
            'kubelet.yaml:3: memoryThrottlingFactor: "nan": must be a number',
        ),
        ("? [a]\n: 1\n", "kubelet.yaml:3: key: must be a string"),
        (
            "providerID: !!binary aGk=\n",
            "kubelet.yaml:3: providerID: tag:yaml.org,2002:binary: this YAML tag is not allowed",
        ),
        (
            "tlsCurvePreferences: [&a [*a]]\n",
            "kubelet.yaml:3: tlsCurvePreferences[0][0]: alias: must not contain itself",
        ),
        (
            "kubeReserved: {<<: 5}\n",
            "kubelet.yaml:3: kubeReserved.<<: 5: must be a map or a list of maps",
        ),
        ("maxPods: [1\n", "kubelet.yaml:4:1: bad YAML: did not find expected ',' or ']'"),
        (
            "maxPods: 1\n maxPods: 2\n",
            "kubelet.yaml:4:9: bad YAML: mapping values are not allowed in this context",
        ),
        ("---\nmaxPods: 1\n", "kubelet.yaml:3:1: bad YAML: but found another document"),
        ("providerID: \x07\n", None),
    ],
)
def test_bad_files(files, text, line):
    """Each mistake names the file, the line, the field, the value and what is allowed."""
    found = files.problems(text)
    if line is not None:
        assert line in found


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"", "kubelet.yaml: empty file: must hold a KubeletConfiguration"),
        (b" \n\n", "kubelet.yaml: empty file: must hold a KubeletConfiguration"),
        (b"# nothing\n", "kubelet.yaml: empty file: must hold a KubeletConfiguration"),
        (b"a: b\n\xff\n", "kubelet.yaml:2: not UTF-8: must be text in UTF-8"),
        (
            b"x" * (documents.MAX_BYTES + 1),
            "kubelet.yaml: too large: a configuration file has at most 4194304 bytes",
        ),
        (b"[1]\n", "kubelet.yaml: [1]: must be a map: the fields of a KubeletConfiguration"),
        (b"[" * 100_000, "kubelet.yaml:1: nested too deeply: at most 64 levels are allowed"),
        (
            b'{"kind": 1, "kind": 2, "x": "\\ud83d\\ude00"}',
            "kubelet.yaml: kind: 2: must be given only once",
        ),
        (
            b"apiVersion: v1\nkind: Pod\n",
            'kubelet.yaml:1: apiVersion: "v1": must be "kubelet.config.k8s.io/v1beta1"',
        ),
        (
            b"apiVersion: v1\nkind: Pod\n",
            'kubelet.yaml:2: kind: "Pod": must be "KubeletConfiguration"',
        ),
        (b"{a: b", "kubelet.yaml:2:1: bad YAML: did not find expected ',' or '}'"),
        (b"\0\0\0", None),
        (b"%YAML 9.9\n---\na: b\n", None),
    ],
)
def test_bad_bytes(files, data, line):
    """Files that are no configuration at all are told as such."""
    found = files.problems(data)
    assert found
    if line is not None:
        assert line in found


@pytest.mark.parametrize("path", ["/nonexistent/k.yaml", "/proc", "a\0b"])
def test_unreadable_file(flag_problems, path):
    """A file that cannot be read is one problem, not one for each field."""
    (line,) = flag_problems(f"--config={path}")
    assert "cannot be read" in line


def test_aliases_do_not_explode(files):
    """A small file that stands for a huge value is refused at once."""
    layers_ = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
    found = files.problems("a0: &a0 [x]\n" + layers_ + "maxPods: *a11\nclusterDNS: [*a11]\n")
    assert any("maxPods" in line and "must be an integer" in line for line in found)
    assert all(len(line) < 400 for line in found)


def test_every_problem_of_file_and_flags_at_once(files):
    """Unknown, mistyped, out of range and conflicting values come out together."""
    found = files.problems(
        "maxPod: 1\nport: x\nhealthzPort: 70000\nimageGCLowThresholdPercent: 90\n", "--nope"
    )
    assert [line.split(": ")[:2] for line in found] == [
        ["--nope", "unknown flag"],
        ["kubelet.yaml:3", "maxPod"],
        ["kubelet.yaml:4", "port"],
        ["kubelet.yaml:5", "healthzPort"],
        ["kubelet.yaml:6", "imageGCLowThresholdPercent"],
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_bytes_give_an_answer(files, data):
    """Arbitrary bytes as a file never crash."""
    _answer(files.write(data))


_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(body=st.dictionaries(st.sampled_from(sorted(layers.TREE)), _JSON, max_size=4))
def test_any_values_of_known_fields_give_an_answer(files, body):
    """Arbitrary values in known fields never crash."""
    text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in body.items())
    _answer(files.write(text))


def _answer(path):
    with pytest.raises(config.ConfigError) as caught:  # the directory is never there
        config.load([f"--config={path}", f"--config-dir={path}.d"])
    assert all(len(line.splitlines()) == 1 for line in caught.value.problems)
