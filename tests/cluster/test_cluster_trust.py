"""Trust bundles and certificates of pods, from the API server to their files (L-27, L-28)."""

from __future__ import annotations

import base64
import datetime as dt
import os
import signal

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.cluster.pki import Authority
from tests.node.pod_node import sh, sleeper
from tests.node.shared import pod

GROUP = "/apis/certificates.k8s.io/v1beta1"
BUNDLES = f"{GROUP}/clustertrustbundles"
SIGNER = "kubelet.test/mesh"
HOUR = dt.timedelta(hours=1)


@pytest.fixture
def bundles(node):
    """Makes trust bundles, and takes them away again."""
    made = []

    def make(name, *certificates, signer="", **labels):
        spec = {"trustBundle": "".join(certificates)}
        full = f"{node.namespace}-{name}"
        if signer:
            full = f"{signer.replace('/', ':')}:{full}"
            spec["signerName"] = signer
        made.append(f"{BUNDLES}/{full}")
        kind = {"apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle"}
        metadata = {"name": full, "labels": labels}
        node.admin.create(BUNDLES, {**kind, "metadata": metadata, "spec": spec})
        return full

    yield make
    for path in made:
        node.admin.delete(path)


@pytest.fixture
def roots(tmp_path):
    """Certificates that may be trusted, as PEM."""
    return [Authority(tmp_path, f"root-{n}").pair.certificate.read_text() for n in range(3)]


def volume(*sources):
    """A projected volume of these sources, and where it is mounted."""
    return {
        "volumes": [{"name": "v", "projected": {"sources": list(sources)}}],
    }, {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}


def trust(path, **chosen):
    """A source of trust anchors."""
    return {"clusterTrustBundle": {"path": path, **chosen}}


def anchors(text):
    """The certificates of a text."""
    return {
        one.fingerprint(hashes.SHA256()) for one in x509.load_pem_x509_certificates(text.encode())
    }


def test_a_pod_trusts_what_its_bundles_say(node, bundles, roots):
    """L-27: by name, by signer and labels; each certificate once; nothing where nothing need be."""
    one, two, three = roots
    named = bundles("named", one, two)
    signer = f"{node.namespace}.kubelet.test/ca"
    bundles("blue", one, two, signer=signer, colour="blue")
    bundles("red", two, three, signer=signer, colour="red")
    blue = {"matchExpressions": [{"key": "colour", "operator": "In", "values": ["blue"]}]}
    spec, container = volume(
        trust("named", name=named),
        trust("every", signerName=signer, labelSelector={}),
        trust("blue", signerName=signer, labelSelector=blue),
        trust("none", name="nobody-has-this", optional=True),
        trust("nil", signerName=signer, optional=True),
    )
    script = 'cd /v; for f in named every blue none nil; do cat $f; echo "#"; done'
    parts = node.run(pod("reads", sh(script, **container), **spec)).split("#\n")
    assert anchors(parts[0]) == anchors(one + two)
    assert anchors(parts[1]) == anchors(one + two + three)
    assert parts[1].count("BEGIN") == 3
    assert anchors(parts[2]) == anchors(one + two)
    assert parts[3:5] == ["", ""]


def test_a_changed_bundle_reaches_the_pod(node, bundles, roots):
    """L-27: the file in the running container is the new one."""
    name = bundles("moving", roots[0])
    spec, container = volume(trust("ca", name=name))
    new = roots[1].splitlines()[3]
    script = f"echo up; until grep -qF '{new}' /v/ca; do sleep 0.1; done; cat /v/ca"
    node.create(pod("watches", sh(script, **container), **spec, restartPolicy="Never"))
    node.await_pod_ready("watches")
    node.admin.patch(f"{BUNDLES}/{name}", {"spec": {"trustBundle": roots[1]}})
    node.await_phase("watches", "Succeeded", seconds=100)
    assert anchors(node.output("watches").removeprefix("up\n")) == anchors(roots[1])


def test_a_pod_waits_for_trust_that_it_must_have(node, bundles, roots):
    """L-25, L-27: it says what it lacks in the kubelet's words, and starts when that is there."""
    name = f"{node.namespace}-late"
    spec, container = volume(trust("ca", name=name))
    node.create(pod("waits", sleeper(**container), **spec))
    event = node.await_event("waits", "FailedMount")
    lacks = f'clustertrustbundle.certificates.k8s.io "{name}" not found'
    assert event["message"].endswith(f": while getting ClusterTrustBundle: {lacks}")
    bundles("late", roots[0])
    node.await_pod_ready("waits")


class Signer:
    """Plays a signer: looks at the requests of a namespace, and answers."""

    def __init__(self, node):
        self._admin = node.admin
        self._path = f"{GROUP}/namespaces/{node.namespace}/podcertificaterequests"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("signer")

    def asked(self):
        """Wait for a request."""

        def look(found):
            return next((one for one in found.values() if not one["status"]), None)

        return self._admin.wait_for("a certificate is asked for", self._path, look)

    def issue(self, request):
        """Give a certificate; its PEM."""
        stub = x509.load_der_x509_csr(base64.b64decode(request["spec"]["stubPKCS10Request"]))
        begin = dt.datetime.now(dt.UTC).replace(microsecond=0)
        end = begin + HOUR
        made = (
            x509.CertificateBuilder(self._name, _named("pod"), stub.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
            .sign(self._key, hashes.SHA256())
        )
        chain = made.public_bytes(serialization.Encoding.PEM).decode()
        self._answer(
            request,
            "Issued",
            certificateChain=chain,
            notBefore=_text(begin),
            beginRefreshAt=_text(begin + HOUR / 2),
            notAfter=_text(end),
        )
        return chain

    def deny(self, request):
        """Say no."""
        self._answer(request, "Denied", message="not today")

    def _answer(self, request, kind, message="", **status):
        now = _text(dt.datetime.now(dt.UTC))
        condition = {"type": kind, "status": "True", "reason": "Test", "message": message}
        conditions = [{**condition, "lastTransitionTime": now}]
        path = f"{self._path}/{request['metadata']['name']}/status"
        self._admin.patch(path, {"status": {"conditions": conditions, **status}})


def _named(name):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _text(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def certificate(key_type="ECDSAP256", **paths):
    """A source of a pod's certificate."""
    notes = {"kubelet.test/for": "us"}
    wish = {"signerName": SIGNER, "keyType": key_type, "userAnnotations": notes, **paths}
    return {"podCertificate": wish}


@pytest.mark.parametrize("key_type", ["ECDSAP384", "ED25519", "RSA3072"])
def test_a_pod_has_the_key_of_its_certificate(node, key_type):
    """L-28: the request says whose it is; bundle, key and chain are files that fit together."""
    spec, container = volume(
        trust("ca", name="nobody-has-this", optional=True),
        certificate(
            key_type,
            credentialBundlePath="bundle",
            keyPath="key",
            certificateChainPath="chain",
        ),
    )
    script = 'cd /v; cat bundle; echo "#"; cat key; echo "#"; cat chain; echo "#"; stat -Lc %a key'
    spec["securityContext"] = {"runAsUser": 1000}
    node.create(pod("mine", sh(script, **container), **spec, restartPolicy="Never"))
    signer = Signer(node)
    request = signer.asked()
    asked, uid = request["spec"], node.pod("mine")["metadata"]["uid"]
    assert (asked["podName"], asked["podUID"], asked["nodeName"]) == ("mine", uid, node.name)
    assert asked["unverifiedUserAnnotations"] == {"kubelet.test/for": "us"}
    assert request["metadata"]["ownerReferences"][0]["uid"] == uid
    chain = signer.issue(request)
    node.await_phase("mine", "Succeeded")
    bundle, key, files, mode = node.output("mine").split("#\n")
    assert (bundle, files, mode) == (key + chain, chain, "600\n")
    private = serialization.load_pem_private_key(key.encode(), None)
    assert private.public_key() == x509.load_pem_x509_certificate(files.encode()).public_key()


def test_a_killed_node_process_waits_for_the_same_certificate(node):
    """L-28: its successor asks for nothing again, and the pod starts with the first answer."""
    spec, container = volume(certificate(credentialBundlePath="bundle"))
    node.create(pod("kept", sleeper(**container), **spec))
    signer = Signer(node)
    request = signer.asked()
    os.kill(node.kubelet.pids()["node"], signal.SIGKILL)
    signer.issue(request)
    node.await_pod_ready("kept")
    path = f"{GROUP}/namespaces/{node.namespace}/podcertificaterequests"
    assert len(node.admin.get(path)["items"]) == 1


def test_a_denied_certificate_is_said(node):
    """L-28: the signer's words, as an event of the request and as the reason of the volume."""
    spec, container = volume(certificate(credentialBundlePath="bundle"))
    node.create(pod("denied", sleeper(**container), **spec))
    signer = Signer(node)
    request = signer.asked()
    signer.deny(request)
    name = f"{node.namespace}/{request['metadata']['name']}"
    said = node.await_event("denied", "Denied")
    told = f'PodCertificateRequest {name} was denied, reason="Test", message="not today"'
    assert said["message"] == told
    event = node.await_event("denied", "FailedMount", lambda e: "permanently" in e["message"])
    assert event["message"].endswith(
        ': PodCertificateRequest was permanently denied: reason="Test" message="not today"'
    )
