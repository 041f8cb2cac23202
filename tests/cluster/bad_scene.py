"""A node whose API server is not what it should be: what it says of that, and odd objects."""

from __future__ import annotations

import copy
import itertools
import json
from urllib.parse import parse_qsl, urlsplit

from kubelet.cluster.rows import CONNECTION_KEY, ConnectionRow
from tests.cluster.cluster_node import processes_of
from tests.cluster.documents import config_map
from tests.node.pod_node import PAUSE, SECONDS, sh
from tests.node.shared import pod
from tests.processes.node import wait_for

WITNESS = "witness"  # the pod that runs through all of it

numbers = itertools.count(1)


def life_of(node):
    """What of the running pod must not change."""
    status = node.pod(WITNESS)["status"]
    (container,) = status["containerStatuses"]
    assert processes_of(container["containerID"])
    return container["containerID"], container["restartCount"], container["ready"]


def endings(node):
    """How often each process was started again, but for another kubeconfig; and the reports."""
    found = {p["name"]: p["restarts"] for p in node.kubelet.processes().values()}
    found["node"] -= node.kubelet.log().count('.kubeconfig is another one now"')
    reports = node.kubelet.run_dir / "reports"
    written = [path.read_text() for path in sorted(reports.iterdir())] if reports.exists() else []
    return found, [text for text in written if "exit 75" not in text]


# What the node says of it.


def row(node):
    """How the node stands with its API server."""
    value = node.kubelet._rows("cluster").get(CONNECTION_KEY)
    return ConnectionRow.from_wire(value) if value is not None else ConnectionRow()


def await_row(node, what, check, seconds=SECONDS):
    """Wait until that is as wanted."""
    seen = []

    def look():
        seen[:] = [row(node)]
        return seen[0] if check(seen[0]) else None

    try:
        return wait_for(what, look, seconds, PAUSE)
    except AssertionError as err:
        tail = "\n".join(node.kubelet.log().splitlines()[-40:])
        raise AssertionError(f"{err}\n{seen[0]}\n{tail}") from None


def await_well(node, seconds=SECONDS):
    """Wait until nothing is wrong."""
    await_row(
        node, "all is well", lambda r: r.connected and r.registered and not r.troubles, seconds
    )


def await_trouble(node, what, *words, seconds=SECONDS):
    """Wait until something is said to be wrong in these words, in the row that is shown."""

    def fits(found):
        return any(t.what == what and all(w in t.error for w in words) for t in found.troubles)

    await_row(node, f"{what} is in trouble: {words}", fits, seconds)


def assert_shown(node, *words):
    """``kubeletctl status`` names a problem in these words."""
    done = node.kubelet.ctl("status", "-o", "json")
    shown = json.loads(done.stdout)
    assert any(all(w in text for w in words) for text in shown["problems"]), shown["problems"]
    return shown


def gaps(requests):
    """The seconds between the requests of each kind, by method and path."""
    kinds = {}
    for seen in requests:
        url = urlsplit(seen.path)
        changing = {"resourceVersion", "timeoutSeconds"}
        query = tuple(q for q in parse_qsl(url.query) if q[0] not in changing)
        kinds.setdefault((seen.method, url.path, query), []).append(seen.at)
    return {k: [b - a for a, b in itertools.pairwise(sorted(v))] for k, v in kinds.items()}


def run_one(node, then="exit 0", **options):
    """Have a pod that needs everything."""
    node.kubectl.apply(config_map("mine", word="hello"), namespace=node.namespace)
    env = [{"name": "W", "valueFrom": {"configMapKeyRef": {"name": "mine", "key": "word"}}}]
    name = f"p{next(numbers)}"
    spec = {"restartPolicy": "Never", **options}
    node.create(pod(name, sh(f"echo $W; {then}", env=env), **spec))
    return name


# Odd objects.


def with_unknown_fields(document):
    """An object as a newer API server may send it."""
    new = copy.deepcopy(document)
    new["novelty"] = {"a": [1, {"b": None}]}
    for part in ("metadata", "spec", "status"):
        if isinstance(new.get(part), dict):
            new[part]["novelty"] = [{"x": 1.5}]
    for container in new.get("spec", {}).get("containers", ()):
        container["novelty"] = True
    for condition in new.get("status", {}).get("conditions", ()):
        condition["novelty"] = "n"
    return new


def put(document, *path, value):
    """Put something odd into an object."""
    *above, last = path
    for name in above:
        document = document[name]
    if value is ...:
        del document[last]
    else:
        document[last] = value


ODD = {
    "no-spec": [(("spec",), ...)],
    "empty-spec": [(("spec",), {})],
    "spec-text": [(("spec",), "none")],
    "containers-text": [(("spec", "containers"), "c")],
    "containers-null": [(("spec", "containers"), None)],
    "container-number": [(("spec", "containers"), [7])],
    "container-empty": [(("spec", "containers"), [{}])],
    "container-odd": [
        (("spec", "containers", 0, "image"), 7),
        (("spec", "containers", 0, "env"), {"a": "b"}),
        (("spec", "containers", 0, "resources"), [1]),
    ],
    "volumes-odd": [(("spec", "volumes"), [{"name": 3}, "x", None])],
    "policy-number": [(("spec", "restartPolicy"), 7)],
    "grace-text": [(("spec", "terminationGracePeriodSeconds"), "soon")],
    "labels-list": [(("metadata", "labels"), ["a"])],
    "annotation-huge": [(("metadata", "annotations"), {"big": "x" * (3 << 20)})],
    "no-uid": [(("metadata", "uid"), ...)],
    "uid-path": [(("metadata", "uid"), "../../etc")],
    "no-namespace": [(("metadata", "namespace"), ...)],
    "time-odd": [(("metadata", "creationTimestamp"), "yesterday")],
    "deleted-odd": [(("metadata", "deletionTimestamp"), 5)],
    "status-text": [(("status",), "fine")],
    "conditions-odd": [(("status", "conditions"), [None, "x", {"type": 4}])],
    "deep": [(("spec", "affinity"), json.loads('{"a":' * 90 + "1" + "}" * 90))],
}


def odd(document, kind):
    """An object as no sound API server sends it."""
    new = with_unknown_fields(document)
    for path, value in ODD.get(kind, ()):
        put(new, *path, value=value)
    return new


def beats(node):
    """How often the heart of each process has beaten."""
    found = {}
    for kind in node.kubelet.processes():
        line = node.kubelet.row(kind)
        if line is not None:
            found[kind] = line.beats
    return found
