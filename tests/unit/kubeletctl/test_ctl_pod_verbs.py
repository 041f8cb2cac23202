"""pods, get, why, trace and status, against real tables and rings."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import pytest

from kubelet.pods.rows import Wait
from tests.unit.kubeletctl import podfiles
from tests.unit.kubeletctl.harness import ENVIRONMENT, Done, Tree, kubeletctl
from tests.unit.kubeletctl.podfiles import IMAGE, Tables, container, pod, status


def lines(done: Done) -> list[list[str]]:
    assert done.code == 0, done.err
    return [line.split() for line in done.out.splitlines()]


# --- pods and get ---


def test_pods_are_one_line_each(node: Tree):
    """Name, ready, status word, restarts with their age, age, what is waited for."""
    head, *found = lines(node.run("pods"))
    assert head == ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "WAITS", "FOR"]
    assert found[0] == ["data", "db", "1/1", "Running", "2", "(10m", "ago)", "20m", "-"]
    assert found[1] == ["default", "job", "0/1", "ImagePullBackOff", "0", "20m", *IMAGE.split()]
    assert found[2][:4] == ["default", "old", "1/1", "Terminating"]
    assert found[3][:4] == ["default", "web", "1/1", "Running"]
    assert len(found) == 4  # one of which nothing is left is not shown
    assert len(lines(node.run("pods", "-n", "data"))) == 2
    assert len(lines(node.run("pods", "web"))) == 2
    assert node.run("pods", "-n", "nowhere").out == "no pods in namespace nowhere\n"


def test_pods_for_programs(node: Tree):
    """JSON has the same, and who is ready."""
    found = {one["name"]: one for one in node.run("pods", "-o", "json").json()}
    assert found["web"]["ready"] is True
    assert found["job"]["status"] == "ImagePullBackOff"
    assert found["job"]["waits_for"] == f"waits for {IMAGE}"
    assert (found["db"]["restarts"], found["db"]["containers"]) == (2, 1)
    assert found["old"]["state"] == "terminating"


def test_get_has_the_columns_of_kubectl(node: Tree):
    """One namespace by default, all with -A, more columns with -o wide."""
    head, *found = lines(node.run("get", "pods"))
    assert head == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [one[0] for one in found] == ["job", "old", "web"]
    head, *found = lines(node.run("get", "po", "-A", "-o", "wide"))
    assert head[:2] == ["NAMESPACE", "NAME"]
    assert head[6:] == ["IP", "NODE", "NOMINATED", "NODE", "READINESS", "GATES"]
    assert found[0][-4:] == ["10.1.0.5", "node-1", "<none>", "1/1"]
    assert node.run("get", "pods", "-n", "data", "-o", "name").out == "pod/db\n"
    empty = node.run("get", "pods", "-n", "x").out
    assert empty == "no pods in namespace x; there are pods in data, default (-A shows all)\n"


def test_get_prints_pods_of_the_api(node: Tree):
    """One name is a v1 Pod, several a List; spec and status are those of the tables."""
    found = node.run("get", "pod", "web", "-o", "json").json()
    assert (found["apiVersion"], found["kind"]) == ("v1", "Pod")
    assert found["metadata"]["uid"] == "uid-web"
    assert found["spec"]["containers"][0]["image"] == "busybox:1"
    assert found["status"]["podIP"] == "10.1.0.5"
    listed = node.run("get", "pods", "-A", "-o", "json").json()
    assert (listed["kind"], len(listed["items"])) == ("List", 4)
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(node.run("get", "pod/web", "-o", "yaml").out) == found
    assert node.run("-o", "json", "get", "pods", "web").json() == found
    two = node.run("get", "pods", "web", "job", "-o", "json").json()
    assert [one["metadata"]["name"] for one in two["items"]] == ["web", "job"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["get", "pods", "nope"], 1, "There is no pod 'nope'; the pods are data/db, "),
        (["get", "services"], 2, "There is no resource 'services' here"),
        (["get", "pods", "web", "-A"], 2, "-A stands alone"),
        (["get", "pods", "-o", "xml"], 2, "invalid choice"),
        (["describe", "pod"], 2, "describe needs the name of a pod"),
        (["why", "nope"], 1, "There is no pod 'nope'"),
        (["trace", "nope"], 1, "There is no pod 'nope'"),
        (["pods", "uid-"], 1, "Several pods are meant by 'uid-': data/db (uid uid-db), "),
    ],
)
def test_wrong_questions_are_one_sentence(node: Tree, arguments: list[str], code: int, said: str):
    """Each has its exit code and names what there is."""
    done = node.run(*arguments)
    assert (done.code, done.out) == (code, "")
    assert said in done.err


def test_kubelet_that_does_not_run_is_said_and_its_pods_are_shown(node: Tree):
    """What is left in the tables is of use after an end; where there are none, it is an error."""
    done = node.run("pods")
    assert done.code == 0
    assert "No kubelet runs with run directory" in done.err
    assert done.err.endswith("This is what it left behind.\n")
    nothing = kubeletctl("--run-dir", "/nonexistent/kubelet", "pods")
    assert (nothing.code, nothing.out) == (2, "")


def test_pods_are_shown_when_other_tables_are_not_there(node: Tree):
    """What is missing is said; the rest is shown."""
    (node.root / "tables" / "status").unlink()
    (node.root / "tables" / "inflight").write_bytes(b"garbage")
    done = node.run("pods")
    assert done.code == 0
    assert lines(done)[-1][:4] == ["default", "web", "0/1", "Pending"]
    assert "kubeletctl: Table status is unavailable: " in done.err
    assert "kubeletctl: Table inflight is unavailable: " in done.err
    (node.root / "tables" / "pods").unlink()
    done = node.run("pods")
    assert (done.code, done.out) == (1, "")


def test_rows_that_make_no_sense_are_no_error(node: Tree, tables: Tables):
    """A row of another shape, or none at all, does not hide the others."""
    tables.put("pods", "uid-odd", [1, 2, 3])
    tables.put("pods", "uid-half", {"name": "half", "namespace": "default", "document": b"{"})
    tables.put("status", "uid-half", {"document": b"[]"})
    tables.put("inflight", "uid-half", {"waits": "x", "reasons": 3})
    assert node.run("pods").out.count("\n") == 7
    assert len(node.run("get", "pods", "-A", "-o", "json").json()["items"]) == 6
    assert "Name:             half" in node.run("describe", "pod", "half").out
    done = node.run("why", "half")
    assert (done.code, done.out) == (1, "")
    assert "makes no sense" in done.err


def test_control_characters_do_not_reach_the_terminal(node: Tree, tables: Tables):
    """Names and messages come from documents that strangers write."""
    row = pod("evil", metadata={"annotations": {"a": "\x1b[2J\nb"}})
    tables.pod(row, status(message="\x1b]0;owned\x07"), waits=(Wait("\x1b[2J"),))
    podfiles.ring(node.root, "syncloop", (0, "event", "\x1b[2J", row.uid))
    for verb in (["pods"], ["describe", "pod", "evil"], ["why", "evil"], ["trace", "evil"]):
        done = node.run(*verb)
        assert done.code == 0
        assert "\x1b" not in done.out


# --- why ---


def test_why_is_a_paragraph(node: Tree, tables: Tables):
    """It is wrapped text for people, and a field for programs."""
    done = node.run("why", "job")
    assert done.code == 0
    assert done.out.startswith("Pod default/job from source file is not ready: its status is ")
    assert f"It waits for {IMAGE} since " in done.out
    assert "The last try: refused." in done.out
    assert "The kubelet does not run, so that nothing happens until it does." in done.out
    assert done.out.count("\n") == 1
    told = node.run("why", "job", "-o", "json").json()
    assert told["why"].startswith(done.out.partition(". ")[0])
    assert told["status"] == "ImagePullBackOff"
    assert "nothing is waited for" in node.run("why", "web").out
    tables.sources("/m/bad.yaml: spec.containers: Required value", file=True)
    done = node.run("why", "bad")
    assert done.code == 1
    assert "It may be in a manifest with a problem: /m/bad.yaml: spec.containers" in done.err


# --- trace ---


def test_trace_is_a_time_line_over_all_processes(node: Tree):
    """The newest run by default, with offsets, lengths and bars; of this pod alone."""
    uid, base_ns = "uid-web", time.monotonic_ns() - 100 * podfiles.SECOND
    podfiles.ring(
        node.root,
        "syncloop",
        (0, "pod", "ADD default/web from file", uid),
        (10, "pod", "UPDATE default/web from file", uid),
        (10.010, "step", "creating the sandbox", uid),
        (10.020, "event", "Created: other", "uid-job"),
        (10.250, "step", "", uid),
        base_ns=base_ns,
    )
    podfiles.ring(node.root, "pleg", (10.100, "ContainerStarted", "abc", uid), base_ns=base_ns)
    done = node.run("trace", "web")
    assert done.code == 0
    head, titles, *found = done.out.splitlines()
    assert head.startswith("default/web: 4 steps in 250.0 ms since ")
    assert head.endswith(" (1 older run: --all)")
    assert titles.split() == ["AT", "ms", "DELTA", "ms", "TOOK", "ms", "PROCESS", "WHAT", "TEXT"]
    assert [line.split()[0] for line in found] == ["0.00", "10.0", "100.0", "250.0"]
    assert found[1].split()[1:3] == ["+10.0", "240.0"]
    assert "━━━━━" in found[1]
    assert found[2].split()[-3:] == ["pleg", "ContainerStarted", "abc"]
    everything = node.run("trace", "web", "--all", "-o", "json").json()
    assert (everything["runs"], len(everything["steps"])) == (2, 5)
    assert everything["total_ms"] == pytest.approx(10_250)
    step = everything["steps"][2]
    assert (step["took_ms"], step["what"], step["process"]) == (240.0, "step", "syncloop")
    assert node.run("trace", "web", "--since", "95s").out.count("\n") == 6
    assert node.run("trace", "web", "--since", "1s").code == 1


def test_pod_that_is_gone_is_traced_by_its_uid(node: Tree):
    """The rings know it longer than the tables."""
    podfiles.ring(node.root, "syncloop", (0, "gone", "default/x", "dead-uid-1"))
    assert "dead-uid-1: 1 step " in node.run("trace", "dead-uid-1").out
    assert node.run("trace", "dead").code == 0
    podfiles.ring(node.root, "pleg", (0, "gone", "default/y", "dead-uid-2"))
    done = node.run("trace", "dead")
    assert (done.code, done.out) == (1, "")
    assert "dead-uid-1, dead-uid-2" in done.err


# --- status ---


def test_status_counts_pods_and_lists_those_that_are_not_ready(free_tree: Tree):
    """Counts by state, the reason in a few words, problems of manifests among the problems."""
    tables = Tables(free_tree.root)
    tables.pod(pod("web"), status())
    tables.pod(pod("done"), {"phase": "Succeeded"})
    tables.pod(
        pod("job"),
        status(container(waiting={"reason": "ImagePullBackOff"}), ready=False, phase="Pending"),
        waits=(Wait(IMAGE),),
    )
    tables.pod(pod("big", rejected="OutOfcpu\tno cpu left"), {"phase": "Failed"})
    tables.sources("/m/bad.yaml: kind: Required value", file=True, http=False)
    done = free_tree.run("status")
    assert done.code == 0  # a bad manifest is not an illness of the kubelet
    assert "pods: 4 (1 ready, 1 not ready, 1 completed, 1 failed)\n" in done.out
    assert f"\n  default/job ImagePullBackOff: waits for {IMAGE}\n" in done.out
    assert "\n  default/big Failed: OutOfcpu: no cpu left\n" in done.out
    assert "default/web" not in done.out
    assert "problems:\n  * /m/bad.yaml: kind: Required value\n" in done.out
    assert "notes:\n  * source http has not given its pods yet" in done.out
    found = free_tree.run("status", "-o", "json").json()
    assert found["healthy"] is True
    assert found["problems"] == ["/m/bad.yaml: kind: Required value"]
    one = next(one for one in found["pods"] if one["name"] == "job")
    assert (one["status"], one["ready"], one["namespace"]) == ("ImagePullBackOff", False, "default")
    tables.close()


def test_status_of_many_pods_is_short_and_quick(free_tree: Tree):
    """Ten pods that wait are listed, the others counted; a full node takes no noticeable time."""
    tables = Tables(free_tree.root)
    for number in range(110):
        row = pod(f"p-{number:03}", metadata={"annotations": {"a": "x" * 4000}})
        tables.pod(row, status(ready=False), step="waiting")
    tables.close()
    done = free_tree.run("status")
    assert "pods: 110 (110 not ready)" in done.out
    assert "default/p-009 Running: waiting" in done.out
    assert "default/p-010" not in done.out
    assert "  and 100 pods more that are not ready: 'kubeletctl pods'" in done.out
    least = min(_processor_seconds(free_tree, "status", "-o", "json") for _ in range(5))
    assert least < 0.3, "the promise of docs/kubeletctl.md"


def _processor_seconds(tree: Tree, *arguments: str) -> float:
    """What a command uses of a processor: what it takes on a machine that is not busy."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert json.loads(tree.run(*arguments).out)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def test_status_does_not_load_the_types_of_the_api(free_tree: Tree):
    """They take longer to load than everything else together."""
    tables = Tables(free_tree.root)
    tables.pod(pod("web"), status())
    tables.close()
    program = (
        "import sys; from kubeletctl.main import run; run(sys.argv[1:]); "
        "print([m for m in sys.modules if m.startswith(('kubelet.api', 'yaml', 'zmq', 'asyncio'))])"
    )
    command = [sys.executable, "-c", program, "--run-dir", str(free_tree.root), "status"]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
