"""Trust anchors of pods (L-27)."""

from __future__ import annotations

import base64
import ssl
import textwrap

import pytest
from objects_scene import away, forbidden, later, on_stage, pod, turns

from kubelet.cluster.rows import OBJECTS, TrustRow, trust_key
from kubelet.cluster.selectors import EVERYTHING, SelectorError, query_of, text_of
from procs.node.apiserver.types import ApiError
from procs.node.objects import pem
from procs.node.objects.references import TrustReference, references
from procs.node.objects.trust import NO_API, watched

GROUP = "/apis/certificates.k8s.io"
PATH = f"{GROUP}/v1beta1/clustertrustbundles"
SIGNER = "acme.io/ca"
KEY = trust_key("bundle", "", "")


def block(content, headers="", kind="CERTIFICATE"):
    """A PEM block of any bytes."""
    body = "\n".join(textwrap.wrap(base64.b64encode(content).decode(), 40))
    return f"-----BEGIN {kind}-----\n{headers}{body}\n-----END {kind}-----\n"


def plain(*contents):
    """These certificates in the one form that files have."""
    return {ssl.DER_cert_to_PEM_cert(content) for content in contents}


def split(data):
    """The PEM blocks of a row."""
    end = "-----END CERTIFICATE-----\n"
    return [part + end for part in data.decode().split(end) if part]


def bundle(name, *contents, signer="", **labels):
    """A ClusterTrustBundle as the API server sends it."""
    spec = {"trustBundle": "".join(map(block, contents))}
    if signer:
        spec["signerName"] = signer
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def uses(*sources):
    """A pod with a volume of these trust bundles."""
    listed = [{"clusterTrustBundle": {"path": f"ca{n}", **one}} for n, one in enumerate(sources)]
    return pod(volumes=[{"name": "v", "projected": {"sources": listed}}])


def serves(scene, *versions, resource="clustertrustbundles"):
    """Let the server have the API in these versions, and the group's first one without it."""
    names = {"v1": [], **{version: [resource] for version in versions}}
    for version, resources in names.items():
        scene.server.objects[f"{GROUP}/{version}"] = {
            "resources": [{"name": name} for name in (*resources, "certificatesigningrequests")]
        }


def row(scene, key=KEY):
    """What is written down."""
    value = scene.process.tables.value(OBJECTS, key)
    return None if value is None else TrustRow.from_wire(value)


@pytest.mark.parametrize(
    ("labels", "expressions", "text"),
    [
        ({}, [], EVERYTHING),
        ({"b": "2", "a": "1"}, [], "a=1,b=2"),
        ({}, [("k", "In", ("b", "a", "b"))], "k in (a,b)"),
        ({"z": ""}, [("k", "NotIn", ("x",)), ("e", "Exists", ())], "e,k notin (x),z="),
        ({}, [("k", "DoesNotExist", ())], "!k"),
    ],
)
def test_a_selector_has_one_text(labels, expressions, text):
    """Whoever writes a row and whoever reads it find the same key."""
    assert text_of(labels, expressions) == text
    assert text_of(labels, reversed(expressions)) == text
    assert query_of(text) == ("" if text == EVERYTHING else text)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (("k", "Near", ()), '"Near" is not a valid label selector operator'),
        (("k", "In", ()), "k In needs values"),
        (("k", "In", ("x" * 200_000,)), "is larger than 102400"),
    ],
)
def test_a_selector_that_cannot_be_says_why(expression, words):
    """No request is made of it."""
    with pytest.raises(SelectorError, match=words):
        text_of({}, [expression])


def test_which_trust_a_pod_refers_to():
    """L-27: by name, or by signer and labels; no selector is another thing than an empty one."""
    found = references(
        uses(
            {"name": "bundle"},
            {"signerName": SIGNER},
            {"signerName": SIGNER, "labelSelector": {}},
            {"signerName": SIGNER, "labelSelector": {"matchLabels": {"a": "b"}}},
            {"signerName": SIGNER, "labelSelector": {"matchExpressions": [{"operator": "?"}]}},
            {},
        )
    )
    assert found == {
        TrustReference(name="bundle"),
        TrustReference(signer=SIGNER, selector=""),
        TrustReference(signer=SIGNER, selector=EVERYTHING),
        TrustReference(signer=SIGNER, selector="a=b"),
    }


def test_what_is_watched_for_trust():
    """Fields and labels as the API server takes them; nothing in a name becomes a field."""
    by_name = watched(TrustReference("a:b,c=d"), "v1")
    assert (by_name.path, by_name.fields) == (
        f"{GROUP}/v1/clustertrustbundles",
        "metadata.name=a:b\\,c\\=d",
    )
    every = watched(TrustReference("", SIGNER, EVERYTHING), "v1")
    assert (every.fields, every.labels) == (f"spec.signerName={SIGNER}", "")
    some = watched(TrustReference("", SIGNER, "a=b"), "v1")
    assert (some.fields, some.labels) == (f"spec.signerName={SIGNER}", "a=b")


def test_certificates_are_made_plain():
    """L-27, L-28: no remarks, no headers, no other blocks, nothing broken, each once."""
    text = (
        "remark\n"
        + block(b"one", headers="Proc-Type: x\nOther: y\n\n")
        + block(b"key", kind="PRIVATE KEY")
        + "between\n"
        + block(b"two").replace("\n", "\r\n")
        + "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n"
        + block(b"one")
    )
    assert pem.certificates(text) == [b"one", b"two", b"one"]
    assert set(split(pem.anchors(pem.certificates(text)))) == plain(b"one", b"two")
    assert pem.anchors([b"one", b"two"]) == pem.anchors([b"two", b"one", b"two"])
    order = [ssl.DER_cert_to_PEM_cert(one) for one in (b"one", b"two", b"one")]
    assert pem.chain(text).decode() == "".join(order)
    assert pem.chain("nothing") == b""


def test_a_bundle_is_read_by_its_name_and_followed(tmp_path):
    """L-27: each certificate once; a change is seen, a row that says the same is not written."""

    async def work(scene):
        serves(scene, "v1beta1")
        scene.server.put(f"{PATH}/bundle", bundle("bundle", b"one", b"two", b"one"))
        scene.objects.start()
        scene.pods.put(uses({"name": "bundle"}))
        await turns()
        assert (row(scene).found, row(scene).error) == (True, "")
        assert set(split(row(scene).pem)) == plain(b"one", b"two")
        scene.server.put(f"{PATH}/bundle", bundle("bundle", b"two", b"one"))
        assert scene.process.puts[KEY] == 1
        scene.server.put(f"{PATH}/bundle", bundle("bundle", b"three"))
        assert set(split(row(scene).pem)) == plain(b"three")
        scene.server.remove(f"{PATH}/bundle")
        assert (row(scene).found, row(scene).pem) == (False, b"")
        scene.server.put(f"{PATH}/bundle", bundle("bundle", b"four"))
        assert set(split(row(scene).pem)) == plain(b"four")

    on_stage(tmp_path, work)


def test_bundles_of_a_signer_are_one_set(tmp_path):
    """L-27: those of the signer alone, and of these those with the labels."""
    every = trust_key("", SIGNER, EVERYTHING)
    blue = trust_key("", SIGNER, "colour=blue")

    async def work(scene):
        serves(scene, "v1beta1")
        put = scene.server.put
        put(f"{PATH}/a", bundle("a", b"one", b"two", signer=SIGNER, colour="blue"))
        put(f"{PATH}/b", bundle("b", b"two", b"three", signer=SIGNER))
        put(f"{PATH}/c", bundle("c", b"four", signer="acme.io/other", colour="blue"))
        scene.objects.start()
        selector = {"matchLabels": {"colour": "blue"}}
        scene.pods.put(
            uses(
                {"signerName": SIGNER, "labelSelector": {}},
                {"signerName": SIGNER, "labelSelector": selector},
            )
        )
        await turns()
        assert set(split(row(scene, every).pem)) == plain(b"one", b"two", b"three")
        assert set(split(row(scene, blue).pem)) == plain(b"one", b"two")
        put(f"{PATH}/d", bundle("d", b"five", signer=SIGNER))
        assert len(split(row(scene, every).pem)) == 4
        scene.server.remove(f"{PATH}/a")
        assert set(split(row(scene, every).pem)) == plain(b"two", b"three", b"five")
        assert (row(scene, blue).found, row(scene, blue).pem) == (False, b"")

    on_stage(tmp_path, work)


def test_no_selector_selects_nothing(tmp_path):
    """L-27: that is known without asking anybody."""
    key = trust_key("", SIGNER, "")

    async def work(scene):
        scene.objects.start()
        scene.pods.put(uses({"signerName": SIGNER}))
        await turns()
        assert (row(scene, key).found, row(scene, key).error) == (False, "")
        assert scene.server.asked == []

    on_stage(tmp_path, work)


@pytest.mark.parametrize(
    ("versions", "used"),
    [
        (("v1", "v1beta1", "v1alpha1"), "v1"),
        (("v1beta1", "v1alpha1"), "v1beta1"),
        (("v1alpha1",), "v1alpha1"),
    ],
)
def test_the_newest_version_that_the_server_has_is_used(tmp_path, versions, used):
    """Which one is found out when the first pod needs it, once for all."""

    async def work(scene):
        serves(scene, *versions)
        scene.objects.start()
        scene.pods.put(uses({"name": "bundle"}, {"name": "other"}))
        await turns(40)
        assert {w.watched.path for w in scene.server.watches} == {
            f"{GROUP}/{used}/clustertrustbundles"
        }
        assert scene.server.count("GET", f"{GROUP}/v1") == 1
        assert (row(scene).found, row(scene).error) == (False, "")

    on_stage(tmp_path, work)


def test_a_server_without_the_api_says_so_until_it_has_it(tmp_path):
    """The row tells that the server was asked; the API may come with an upgrade."""

    async def work(scene):
        serves(scene)
        scene.objects.start()
        scene.pods.put(uses({"name": "bundle"}))
        await turns()
        assert (row(scene).error, row(scene).read_ns > 0) == (NO_API, True)
        serves(scene, "v1beta1")
        scene.server.put(f"{PATH}/bundle", bundle("bundle", b"one"))
        await later(301)
        assert (row(scene).found, row(scene).error) == (True, "")

    on_stage(tmp_path, work)


def test_a_version_that_goes_away_is_looked_for_again(tmp_path):
    """A watch that is told that there is no such path finds the next version."""

    async def work(scene):
        serves(scene, "v1beta1")
        scene.server.put(f"{PATH}/bundle", bundle("bundle", b"one"))
        scene.objects.start()
        scene.pods.put(uses({"name": "bundle"}))
        await turns()
        serves(scene, "v1")
        scene.server.put(f"{GROUP}/v1/clustertrustbundles/bundle", bundle("bundle", b"two"))
        (watch,) = scene.server.watches
        watch.told(ApiError("the server could not find the requested resource", status=404))
        await later(2)
        assert set(split(row(scene).pem)) == plain(b"two")
        assert row(scene).error == ""

    on_stage(tmp_path, work)


@pytest.mark.parametrize("error", [forbidden("bundle"), away()])
def test_trust_that_cannot_be_had_says_why_after_a_while(tmp_path, error):
    """What may pass is not said at once; what was known before still holds."""

    async def work(scene):
        serves(scene, "v1beta1")
        scene.server.faults[f"{GROUP}/v1"] = error
        scene.objects.start()
        scene.pods.put(uses({"name": "bundle"}))
        await turns()
        assert row(scene) is None
        await later(20)
        assert (row(scene).found, row(scene).error, row(scene).read_ns) == (False, str(error), 0)
        scene.server.put(f"{PATH}/bundle", bundle("bundle", b"one"))
        del scene.server.faults[f"{GROUP}/v1"]
        await later(31)
        assert (row(scene).found, row(scene).error) == (True, "")

    on_stage(tmp_path, work)


def test_a_refusal_takes_no_anchors_away(tmp_path):
    """Pods keep what they have; the row says what is wrong until nothing is."""

    async def work(scene):
        serves(scene, "v1beta1")
        scene.server.put(f"{PATH}/bundle", bundle("bundle", b"one"))
        scene.objects.start()
        scene.pods.put(uses({"name": "bundle"}))
        await turns()
        scene.server.faults[PATH] = forbidden("bundle")
        scene.server.watches[0].told(forbidden("bundle"))
        await later(30)
        assert (row(scene).found, row(scene).error) == (True, str(forbidden("bundle")))
        assert set(split(row(scene).pem)) == plain(b"one")
        del scene.server.faults[PATH]
        await later(31)
        assert (row(scene).found, row(scene).error) == (True, "")

    on_stage(tmp_path, work)


def test_with_the_gate_off_nothing_is_asked(tmp_path):
    """The row says why there is no trust."""

    async def work(scene):
        scene.objects.start()
        scene.pods.put(uses({"name": "bundle"}))
        await turns()
        assert "feature gate ClusterTrustBundleProjection is off" in row(scene).error
        assert scene.server.asked == []

    on_stage(tmp_path, work, feature_gates="ClusterTrustBundleProjection=false")


def test_trust_is_forgotten_a_while_after_its_last_pod(tmp_path):
    """L-24, L-27: one watch for all pods, which ends when nobody needs it."""

    async def work(scene):
        serves(scene, "v1beta1")
        scene.server.put(f"{PATH}/bundle", bundle("bundle", b"one"))
        scene.objects.start()
        first = uses({"name": "bundle"})
        scene.pods.put(first)
        second = {**first, "metadata": {**first["metadata"], "uid": "u2"}}
        scene.pods.put(second)
        await turns()
        assert len(scene.server.watches) == 1
        scene.pods.remove("u1")
        await later(100)
        assert scene.keys() == [KEY]
        scene.pods.remove("u2")
        await later(100)
        assert (scene.keys(), scene.server.watches) == ([], [])

    on_stage(tmp_path, work)


def test_a_successor_takes_trust_as_it_was(tmp_path):
    """The row is there before the server answers, and is not written again for the same."""

    async def work(scene):
        serves(scene, "v1beta1")
        scene.server.put(f"{PATH}/bundle", bundle("bundle", b"two", b"one"))
        scene.objects.start()
        scene.pods.put(uses({"name": "bundle"}))
        await turns()
        await scene.die()
        scene.objects.start()
        assert row(scene).found
        await turns()
        assert scene.process.puts[KEY] == 0

    on_stage(tmp_path, work)
