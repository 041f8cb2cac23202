"""What is wrong with volumes, in the API server's words."""

from __future__ import annotations

import pytest

from tests.unit.api.documents import problems
from tests.unit.api.phrases import SUBDOMAIN

V = "spec.volumes[0]"
MODE = "must be a number between 0 and 0777 (octal), both inclusive"


def _volume(**source):
    return {V: {"name": "data", **source}}


def _item(**item):
    return _volume(configMap={"name": "a", "items": [{"key": "k", "path": "p", **item}]})


def _file(**file):
    return _volume(downwardAPI={"items": [{"path": "p", **file}]})


def _part(**part):
    return {**_volume(projected={"sources": [part]}), "spec.serviceAccountName": "a"}


def _template(**spec):
    filled = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        **spec,
    }
    return _volume(ephemeral={"volumeClaimTemplate": {"spec": filled}})


NAME = {"fieldRef": {"fieldPath": "metadata.name"}}
P = f"{V}.projected.sources[0]"
T = f"{V}.ephemeral.volumeClaimTemplate"

GENERAL = [
    ({V: {"emptyDir": {}}}, f"{V}.name: Required value"),
    (
        {"spec.volumes[1]": {"name": "data", "emptyDir": {}}},
        'spec.volumes[1].name: Duplicate value: "data"',
    ),
    (
        _volume(emptyDir={}, hostPath={"path": "/a"}),
        f"{V}.hostPath: Forbidden: may not specify more than 1 volume type",
    ),
    (
        _volume(secret={"secretName": "a"}, nfs={}),
        f"{V}.nfs: Forbidden: may not specify more than 1 volume type",
    ),
]

LOCAL = [
    (
        _volume(emptyDir={"medium": "Disk"}),
        (
            f'{V}.emptyDir.medium: Unsupported value: "Disk": supported values: "", "HugePages", '
            '"HugePages-<size>", "Memory"'
        ),
    ),
    (
        _volume(emptyDir={"sizeLimit": "-1"}),
        f"{V}.emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity",
    ),
    (
        _volume(emptyDir={"sizeLimit": "big"}),
        (
            f'{V}.emptyDir.sizeLimit: Invalid value: "big": must be a quantity such as "500m", '
            '"1.5Gi" or "2e3"'
        ),
    ),
    (_volume(hostPath={}), f"{V}.hostPath.path: Required value"),
    (
        _volume(hostPath={"path": "/a/../b"}),
        f"{V}.hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
    ),
    (
        _volume(hostPath={"path": "/a", "type": "Link"}),
        (
            f'{V}.hostPath.type: Unsupported value: "Link": supported values: "", "BlockDevice", '
            '"CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"'
        ),
    ),
    (_volume(image={"pullPolicy": "Never"}), f"{V}.image.reference: Required value"),
    (
        _volume(image={"reference": "a", "pullPolicy": "Once"}),
        (
            f'{V}.image.pullPolicy: Unsupported value: "Once": supported values: "Always", '
            '"IfNotPresent", "Never"'
        ),
    ),
    (_volume(nfs={"path": "/a"}), f"{V}.nfs.server: Required value"),
    (_volume(nfs={"server": "a"}), f"{V}.nfs.path: Required value"),
    (
        _volume(nfs={"server": "a", "path": "b"}),
        f'{V}.nfs.path: Invalid value: "b": must be an absolute path',
    ),
]

OBJECTS = [
    (_volume(secret={}), f"{V}.secret.secretName: Required value"),
    (_volume(configMap={}), f"{V}.configMap.name: Required value"),
    (
        _volume(secret={"secretName": "a", "defaultMode": 512}),
        f"{V}.secret.defaultMode: Invalid value: 512: {MODE}",
    ),
    (_item(key=""), f"{V}.configMap.items[0].key: Required value"),
    (_item(path=""), f"{V}.configMap.items[0].path: Required value"),
    (_item(mode=-1), f"{V}.configMap.items[0].mode: Invalid value: -1: {MODE}"),
    (
        _item(path="/p"),
        f'{V}.configMap.items[0].path: Invalid value: "/p": must be a relative path',
    ),
    (
        _item(path="../p"),
        f"{V}.configMap.items[0].path: Invalid value: \"../p\": must not contain '..'",
    ),
    (
        _item(path="..p"),
        f"{V}.configMap.items[0].path: Invalid value: \"..p\": must not start with '..'",
    ),
    (
        _file(),
        (
            f"{V}.downwardAPI.items[0]: Required value: one of fieldRef and resourceFieldRef is "
            "required"
        ),
    ),
    (
        _file(**NAME, resourceFieldRef={"containerName": "app", "resource": "limits.cpu"}),
        (
            f'{V}.downwardAPI.items[0]: Invalid value: "resource": fieldRef and '
            "resourceFieldRef can "
            "not be specified simultaneously"
        ),
    ),
    (
        _file(fieldRef={"fieldPath": "status.podIP"}),
        (
            f'{V}.downwardAPI.items[0].fieldRef.fieldPath: Unsupported value: "status.podIP": '
            'supported values: "metadata.annotations", "metadata.labels", "metadata.name", '
            '"metadata.namespace", "metadata.uid"'
        ),
    ),
    (
        _file(resourceFieldRef={"resource": "limits.cpu"}),
        f"{V}.downwardAPI.items[0].resourceFieldRef.containerName: Required value",
    ),
    (
        _file(**NAME, mode=512),
        f"{V}.downwardAPI.items[0].mode: Invalid value: 512: {MODE}",
    ),
]

PROJECTED = [
    (_part(), f"{P}: Required value: must specify a volume type"),
    (_part(secret={}), f"{P}.secret.name: Required value"),
    (
        _part(secret={"name": "a"}, configMap={"name": "b"}),
        f"{P}: Forbidden: may not specify more than 1 volume type per source",
    ),
    (
        _part(
            secret={
                "name": "a",
                "items": [{"key": "a", "path": "p"}, {"key": "b", "path": "p"}],
            }
        ),
        f'{P}.secret: Invalid value: "p": conflicting duplicate paths',
    ),
    (
        _part(serviceAccountToken={"path": "t", "expirationSeconds": 60}),
        (
            f"{P}.serviceAccountToken.expirationSeconds: Invalid value: 60: may not specify a "
            "duration less than 10 minutes"
        ),
    ),
    (
        _part(serviceAccountToken={"path": "t", "expirationSeconds": 2**32 + 1}),
        (
            f"{P}.serviceAccountToken.expirationSeconds: Invalid value: 4294967297: may not "
            "specify a "
            "duration larger than 2^32 seconds"
        ),
    ),
    (_part(serviceAccountToken={}), f"{P}.serviceAccountToken.path: Required value"),
    (
        _volume(projected={"sources": [{"serviceAccountToken": {"path": "t"}}]}),
        (
            f"{P}.serviceAccountToken: Forbidden: must not be specified when serviceAccountName "
            "is not "
            "set"
        ),
    ),
    (
        _part(clusterTrustBundle={"path": "p"}),
        f"{P}.clusterTrustBundle: Required value: either name or signerName must be specified",
    ),
    (
        _part(clusterTrustBundle={"path": "p", "name": "a", "signerName": "a.b/c"}),
        (
            f"{P}.clusterTrustBundle: Invalid value: "
            f'{{"name":"a","path":"p","signerName":"a.b/c"}}: '
            "only one of name and signerName may be used"
        ),
    ),
    (
        _part(clusterTrustBundle={"path": "p", "name": "a", "labelSelector": {}}),
        (
            f"{P}.clusterTrustBundle.labelSelector: Invalid value: {{}}: labelSelector must be "
            "unset "
            "if name is specified"
        ),
    ),
    (
        _part(clusterTrustBundle={"path": "p", "signerName": "nobody"}),
        (
            f'{P}.clusterTrustBundle.signerName: Invalid value: "nobody": must be a fully '
            "qualified "
            'domain and path of the form "a.b/c"'
        ),
    ),
    (
        _part(podCertificate={"keyType": "ED25519", "keyPath": "k"}),
        f"{P}.podCertificate.signerName: Required value",
    ),
    (
        _part(podCertificate={"keyType": "RSA512", "signerName": "a.b/c", "keyPath": "k"}),
        (
            f'{P}.podCertificate.keyType: Unsupported value: "RSA512": supported values: '
            '"ECDSAP256", '
            '"ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096"'
        ),
    ),
    (
        _part(podCertificate={"keyType": "ED25519", "signerName": "a.b/c"}),
        (
            f"{P}.podCertificate: Required value: specify at least one of credentialBundlePath, "
            "keyPath, and certificateChainPath"
        ),
    ),
    (
        _part(
            podCertificate={
                "keyType": "ED25519",
                "signerName": "a.b/c",
                "keyPath": "k",
                "maxExpirationSeconds": 1,
            }
        ),
        (
            f"{P}.podCertificate.maxExpirationSeconds: Invalid value: 1: must be between 3600 and "
            "7862400, inclusive"
        ),
    ),
]

CLAIMS = [
    (_volume(persistentVolumeClaim={}), f"{V}.persistentVolumeClaim.claimName: Required value"),
    (_volume(ephemeral={}), f"{T}: Required value"),
    (
        _template(accessModes=[]),
        f"{T}.spec.accessModes: Required value: at least 1 access mode is required",
    ),
    (
        _template(accessModes=["Any"]),
        (
            f'{T}.spec.accessModes: Unsupported value: "Any": supported values: "ReadOnlyMany", '
            '"ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"'
        ),
    ),
    (
        _template(accessModes=["ReadWriteOnce", "ReadWriteOncePod"]),
        f"{T}.spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
    ),
    (_template(resources={}), f"{T}.spec.resources[storage]: Required value"),
    (
        _template(resources={"requests": {"storage": "0"}}),
        f'{T}.spec.resources[storage]: Invalid value: "0": must be greater than zero',
    ),
    (
        {
            "spec.volumes": [
                _template()[V],
                {"name": "b", "persistentVolumeClaim": {"claimName": "web-data"}},
            ]
        },
        (
            'spec.volumes[1].persistentVolumeClaim.claimName: Invalid value: "web-data": must not '
            "reference a PVC that gets created for an ephemeral volume"
        ),
    ),
    (_volume(csi={}), f"{V}.csi.driver: Required value"),
    (_volume(csi={"driver": "a" * 64}), f"{V}.csi.driver: Too long: may not be more than 63 bytes"),
    (_volume(csi={"driver": "a_b"}), f'{V}.csi.driver: Invalid value: "a_b": {SUBDOMAIN}'),
    (
        _volume(csi={"driver": "a", "nodePublishSecretRef": {}}),
        f"{V}.csi.nodePublishSecretRef.name: Required value",
    ),
]

LEGACY = [
    *(
        (_volume(**{kind: source}), f"{V}.{kind}.{key}: Required value")
        for kind, source, key in (
            ("gitRepo", {}, "repository"),
            ("gcePersistentDisk", {}, "pdName"),
            ("awsElasticBlockStore", {}, "volumeID"),
            ("iscsi", {"targetPortal": "a"}, "iqn"),
            ("glusterfs", {"endpoints": "a"}, "path"),
            ("rbd", {"image": "a"}, "monitors"),
            ("cinder", {}, "volumeID"),
            ("cinder", {"volumeID": "a", "secretRef": {}}, "secretRef.name"),
            ("cephfs", {}, "monitors"),
            ("quobyte", {"registry": "a:1"}, "volume"),
            ("flexVolume", {}, "driver"),
            ("azureFile", {"secretName": "a"}, "shareName"),
            ("vsphereVolume", {}, "volumePath"),
            ("photonPersistentDisk", {}, "pdID"),
            ("portworxVolume", {}, "volumeID"),
            ("azureDisk", {"diskName": "a"}, "diskURI"),
            ("storageos", {}, "volumeName"),
            ("scaleIO", {"gateway": "a", "system": "b"}, "volumeName"),
        )
    ),
    (
        _volume(gcePersistentDisk={"pdName": "a", "partition": 256}),
        (
            f"{V}.gcePersistentDisk.partition: Invalid value: 256: must be between 0 and 255, "
            "inclusive"
        ),
    ),
    (
        _volume(iscsi={"targetPortal": "a", "iqn": "x"}),
        f'{V}.iscsi.iqn: Invalid value: "x": must be valid format starting with iqn, eui, or naa',
    ),
    (
        _volume(fc={}),
        f"{V}.fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both",
    ),
    (
        _volume(fc={"targetWWNs": ["a"]}),
        f"{V}.fc.lun: Required value: lun is required if targetWWNs is specified",
    ),
    (
        _volume(flocker={}),
        f"{V}.flocker: Required value: one of datasetName and datasetUUID is required",
    ),
    (
        _volume(flexVolume={"driver": "a", "options": {"x.k8s.io/a": "b"}}),
        (
            f'{V}.flexVolume.options[x.k8s.io/a]: Invalid value: "x.k8s.io/a": kubernetes.io and '
            "k8s.io namespaces are reserved"
        ),
    ),
    (
        _volume(azureDisk={"diskName": "a", "diskURI": "b", "kind": "Odd"}),
        (
            f'{V}.azureDisk.kind: Unsupported value: "Odd": supported values: "Dedicated", '
            '"Managed", '
            '"Shared"'
        ),
    ),
]


@pytest.mark.parametrize(
    ("changes", "expected"), [*GENERAL, *LOCAL, *OBJECTS, *PROJECTED, *CLAIMS, *LEGACY]
)
def test_problem(changes, expected):
    """A volume with one thing wrong has one problem, said as the API server says it (P-7)."""
    assert problems(changes) == [expected]
