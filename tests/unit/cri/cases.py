"""Every call of the interface: how it is made, and what must come of it."""

from __future__ import annotations

from kubelet.cri import api_pb2 as pb
from tests.unit.cri.runtime import VERSION

SANDBOX = pb.PodSandboxConfig(
    metadata=pb.PodSandboxMetadata(name="web", namespace="shop", uid="u-1", attempt=2)
)
CONTAINER = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="nginx", attempt=1))
LIMITS = pb.LinuxContainerResources(cpu_shares=512)
IMAGE = pb.ImageSpec(image="registry.example/web:1")
ONE, TWO = pb.Container(id="c-1"), pb.Container(id="c-2")
PODS = [pb.PodSandbox(id="s-1"), pb.PodSandbox(id="s-2")]
USED = [pb.ContainerStats(attributes=pb.ContainerAttributes(id=name)) for name in ("c-1", "c-2")]
POD_USED = [pb.PodSandboxStats(attributes=pb.PodSandboxAttributes(id="s-1"))]
STATUS = pb.ContainerStatusResponse(status=pb.ContainerStatus(id="c-1"), info={"info": "{}"})
POD_STATUS = pb.PodSandboxStatusResponse(status=pb.PodSandboxStatus(id="s-1"))
READY = pb.StatusResponse(
    status=pb.RuntimeStatus(conditions=[pb.RuntimeCondition(type="RuntimeReady", status=True)])
)
DRIVER = pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=pb.CGROUPFS))
EXEC = pb.ExecRequest(container_id="c-1", cmd=["sh"], tty=True, stdin=True, stdout=True)
ATTACH = pb.AttachRequest(container_id="c-1", stdout=True)
OUTPUT = pb.ExecSyncResponse(stdout=b"out", stderr=b"err", exit_code=3)
CIDR = pb.RuntimeConfig(network_config=pb.NetworkConfig(pod_cidr="10.0.0.0/24"))
FILTER = pb.ContainerFilter(pod_sandbox_id="s-1", label_selector={"a": "b"})
SAVE_POD = pb.CheckpointPodRequest(pod_sandbox_id="s-1", output_path="/x")
BACK = pb.RestorePodRequest(checkpoint_path="/x", config=SANDBOX)
RESTORED = pb.RestorePodResponse(pod_sandbox_id="s-9")
DESCRIBED = [pb.MetricDescriptor(name="m", label_keys=["k"])]
MEASURED = [pb.PodSandboxMetrics(pod_sandbox_id="s-1")]
IMAGES = [pb.Image(id="i-1", size=1), pb.Image(id="i-2", size=2)]
FOUND = pb.ImageStatusResponse(image=IMAGES[0])
DISKS = pb.ImageFsInfoResponse(image_filesystems=[pb.FilesystemUsage(timestamp=1)])

# call, how it is made (r: the runtime client, i: the image client), the request that must arrive,
# the server's answer (a list: a stream), the result, and the seconds given with a default of 100.
CALLS = [
    (
        "Version",
        lambda r, _i: r.version(),
        pb.VersionRequest(version="0.1.0"),
        VERSION,
        VERSION,
        100,
    ),
    ("Status", lambda r, _i: r.status(), pb.StatusRequest(), READY, READY, 100),
    (
        "Status",
        lambda r, _i: r.status(verbose=True),
        pb.StatusRequest(verbose=True),
        READY,
        READY,
        100,
    ),
    (
        "RuntimeConfig",
        lambda r, _i: r.runtime_config(),
        pb.RuntimeConfigRequest(),
        DRIVER,
        DRIVER,
        100,
    ),
    (
        "UpdateRuntimeConfig",
        lambda r, _i: r.update_runtime_config(CIDR),
        pb.UpdateRuntimeConfigRequest(runtime_config=CIDR),
        pb.UpdateRuntimeConfigResponse(),
        None,
        100,
    ),
    (
        "RunPodSandbox",
        lambda r, _i: r.run_pod_sandbox(SANDBOX, "kata"),
        pb.RunPodSandboxRequest(config=SANDBOX, runtime_handler="kata"),
        pb.RunPodSandboxResponse(pod_sandbox_id="s-1"),
        "s-1",
        200,
    ),
    (
        "StopPodSandbox",
        lambda r, _i: r.stop_pod_sandbox("s-1"),
        pb.StopPodSandboxRequest(pod_sandbox_id="s-1"),
        pb.StopPodSandboxResponse(),
        True,
        100,
    ),
    (
        "RemovePodSandbox",
        lambda r, _i: r.remove_pod_sandbox("s-1"),
        pb.RemovePodSandboxRequest(pod_sandbox_id="s-1"),
        pb.RemovePodSandboxResponse(),
        True,
        100,
    ),
    (
        "PodSandboxStatus",
        lambda r, _i: r.pod_sandbox_status("s-1", verbose=True),
        pb.PodSandboxStatusRequest(pod_sandbox_id="s-1", verbose=True),
        POD_STATUS,
        POD_STATUS,
        100,
    ),
    (
        "ListPodSandbox",
        lambda r, _i: r.list_pod_sandbox(),
        pb.ListPodSandboxRequest(),
        pb.ListPodSandboxResponse(items=PODS),
        PODS,
        100,
    ),
    (
        "StreamPodSandboxes",
        lambda r, _i: r.stream_pod_sandboxes(pb.PodSandboxFilter(id="s")),
        pb.StreamPodSandboxesRequest(filter=pb.PodSandboxFilter(id="s")),
        [pb.StreamPodSandboxesResponse(pod_sandboxes=[pod]) for pod in PODS],
        PODS,
        100,
    ),
    (
        "UpdatePodSandboxResources",
        lambda r, _i: r.update_pod_sandbox_resources("s-1", resources=LIMITS),
        pb.UpdatePodSandboxResourcesRequest(pod_sandbox_id="s-1", resources=LIMITS),
        pb.UpdatePodSandboxResourcesResponse(),
        None,
        100,
    ),
    (
        "CreateContainer",
        lambda r, _i: r.create_container("s-1", CONTAINER, SANDBOX),
        pb.CreateContainerRequest(pod_sandbox_id="s-1", config=CONTAINER, sandbox_config=SANDBOX),
        pb.CreateContainerResponse(container_id="c-1"),
        "c-1",
        100,
    ),
    (
        "StartContainer",
        lambda r, _i: r.start_container("c-1"),
        pb.StartContainerRequest(container_id="c-1"),
        pb.StartContainerResponse(),
        None,
        100,
    ),
    (
        "StopContainer",
        lambda r, _i: r.stop_container("c-1", 30),
        pb.StopContainerRequest(container_id="c-1", timeout=30),
        pb.StopContainerResponse(),
        True,
        130,
    ),
    (
        "RemoveContainer",
        lambda r, _i: r.remove_container("c-1"),
        pb.RemoveContainerRequest(container_id="c-1"),
        pb.RemoveContainerResponse(),
        True,
        100,
    ),
    (
        "ListContainers",
        lambda r, _i: r.list_containers(FILTER),
        pb.ListContainersRequest(filter=FILTER),
        pb.ListContainersResponse(containers=[ONE, TWO]),
        [ONE, TWO],
        100,
    ),
    (
        "StreamContainers",
        lambda r, _i: r.stream_containers(),
        pb.StreamContainersRequest(),
        [pb.StreamContainersResponse(containers=[one]) for one in (ONE, TWO)],
        [ONE, TWO],
        100,
    ),
    (
        "ContainerStatus",
        lambda r, _i: r.container_status("c-1", verbose=True),
        pb.ContainerStatusRequest(container_id="c-1", verbose=True),
        STATUS,
        STATUS,
        100,
    ),
    (
        "UpdateContainerResources",
        lambda r, _i: r.update_container_resources("c-1", LIMITS, {"k": "v"}),
        pb.UpdateContainerResourcesRequest(
            container_id="c-1", linux=LIMITS, annotations={"k": "v"}
        ),
        pb.UpdateContainerResourcesResponse(),
        None,
        100,
    ),
    (
        "ReopenContainerLog",
        lambda r, _i: r.reopen_container_log("c-1"),
        pb.ReopenContainerLogRequest(container_id="c-1"),
        pb.ReopenContainerLogResponse(),
        None,
        100,
    ),
    (
        "ExecSync",
        lambda r, _i: r.exec_sync("c-1", ["cat", "x"], 5),
        pb.ExecSyncRequest(container_id="c-1", cmd=["cat", "x"], timeout=5),
        OUTPUT,
        OUTPUT,
        105,
    ),
    (
        "ExecSync",
        lambda r, _i: r.exec_sync("c-1", ["cat"]),
        pb.ExecSyncRequest(container_id="c-1", cmd=["cat"]),
        OUTPUT,
        OUTPUT,
        None,
    ),
    (
        "ExecSync",
        lambda r, _i: r.exec_sync("c-1", ["cat"], 0.5),
        pb.ExecSyncRequest(container_id="c-1", cmd=["cat"], timeout=1),
        OUTPUT,
        OUTPUT,
        100.5,
    ),
    ("Exec", lambda r, _i: r.exec(EXEC), EXEC, pb.ExecResponse(url="http://a"), "http://a", None),
    (
        "Attach",
        lambda r, _i: r.attach(ATTACH),
        ATTACH,
        pb.AttachResponse(url="http://b"),
        "http://b",
        None,
    ),
    (
        "PortForward",
        lambda r, _i: r.port_forward("s-1", [80, 443]),
        pb.PortForwardRequest(pod_sandbox_id="s-1", port=[80, 443]),
        pb.PortForwardResponse(url="http://c"),
        "http://c",
        100,
    ),
    (
        "ContainerStats",
        lambda r, _i: r.container_stats("c-1"),
        pb.ContainerStatsRequest(container_id="c-1"),
        pb.ContainerStatsResponse(stats=USED[0]),
        USED[0],
        100,
    ),
    (
        "ListContainerStats",
        lambda r, _i: r.list_container_stats(pb.ContainerStatsFilter(id="c")),
        pb.ListContainerStatsRequest(filter=pb.ContainerStatsFilter(id="c")),
        pb.ListContainerStatsResponse(stats=USED),
        USED,
        100,
    ),
    (
        "StreamContainerStats",
        lambda r, _i: r.stream_container_stats(),
        pb.StreamContainerStatsRequest(),
        [pb.StreamContainerStatsResponse(container_stats=USED)],
        USED,
        100,
    ),
    (
        "PodSandboxStats",
        lambda r, _i: r.pod_sandbox_stats("s-1"),
        pb.PodSandboxStatsRequest(pod_sandbox_id="s-1"),
        pb.PodSandboxStatsResponse(stats=POD_USED[0]),
        POD_USED[0],
        100,
    ),
    (
        "ListPodSandboxStats",
        lambda r, _i: r.list_pod_sandbox_stats(),
        pb.ListPodSandboxStatsRequest(),
        pb.ListPodSandboxStatsResponse(stats=POD_USED),
        POD_USED,
        100,
    ),
    (
        "StreamPodSandboxStats",
        lambda r, _i: r.stream_pod_sandbox_stats(),
        pb.StreamPodSandboxStatsRequest(),
        [pb.StreamPodSandboxStatsResponse(pod_sandbox_stats=POD_USED)],
        POD_USED,
        100,
    ),
    (
        "ListMetricDescriptors",
        lambda r, _i: r.list_metric_descriptors(),
        pb.ListMetricDescriptorsRequest(),
        pb.ListMetricDescriptorsResponse(descriptors=DESCRIBED),
        DESCRIBED,
        100,
    ),
    (
        "ListPodSandboxMetrics",
        lambda r, _i: r.list_pod_sandbox_metrics(),
        pb.ListPodSandboxMetricsRequest(),
        pb.ListPodSandboxMetricsResponse(pod_metrics=MEASURED),
        MEASURED,
        100,
    ),
    (
        "StreamPodSandboxMetrics",
        lambda r, _i: r.stream_pod_sandbox_metrics(),
        pb.StreamPodSandboxMetricsRequest(),
        [pb.StreamPodSandboxMetricsResponse(pod_sandbox_metrics=MEASURED)],
        MEASURED,
        100,
    ),
    (
        "CheckpointContainer",
        lambda r, _i: r.checkpoint_container("c-1", "/x", 10),
        pb.CheckpointContainerRequest(container_id="c-1", location="/x", timeout=10),
        pb.CheckpointContainerResponse(),
        None,
        100,
    ),
    (
        "CheckpointContainer",
        lambda r, _i: r.checkpoint_container("c-1", "/x", 300),
        pb.CheckpointContainerRequest(container_id="c-1", location="/x", timeout=300),
        pb.CheckpointContainerResponse(),
        None,
        300,
    ),
    (
        "CheckpointPod",
        lambda r, _i: r.checkpoint_pod(SAVE_POD, 20),
        SAVE_POD,
        pb.CheckpointPodResponse(),
        None,
        20,
    ),
    ("RestorePod", lambda r, _i: r.restore_pod(BACK), BACK, RESTORED, RESTORED, 100),
    (
        "ListImages",
        lambda _r, i: i.list_images(),
        pb.ListImagesRequest(),
        pb.ListImagesResponse(images=IMAGES),
        IMAGES,
        100,
    ),
    (
        "StreamImages",
        lambda _r, i: i.stream_images(pb.ImageFilter(image=IMAGE)),
        pb.StreamImagesRequest(filter=pb.ImageFilter(image=IMAGE)),
        [pb.StreamImagesResponse(images=IMAGES[:1]), pb.StreamImagesResponse(images=IMAGES[1:])],
        IMAGES,
        100,
    ),
    (
        "ImageStatus",
        lambda _r, i: i.image_status(IMAGE),
        pb.ImageStatusRequest(image=IMAGE),
        FOUND,
        FOUND,
        100,
    ),
    (
        "ImageStatus",
        lambda _r, i: i.image_status(IMAGE, verbose=True),
        pb.ImageStatusRequest(image=IMAGE, verbose=True),
        pb.ImageStatusResponse(),
        pb.ImageStatusResponse(),
        100,
    ),
    (
        "PullImage",
        lambda _r, i: i.pull_image(IMAGE, pb.AuthConfig(username="u"), SANDBOX),
        pb.PullImageRequest(image=IMAGE, auth=pb.AuthConfig(username="u"), sandbox_config=SANDBOX),
        pb.PullImageResponse(image_ref="sha256:1"),
        "sha256:1",
        None,
    ),
    (
        "RemoveImage",
        lambda _r, i: i.remove_image(IMAGE),
        pb.RemoveImageRequest(image=IMAGE),
        pb.RemoveImageResponse(),
        True,
        100,
    ),
    ("ImageFsInfo", lambda _r, i: i.image_fs_info(), pb.ImageFsInfoRequest(), DISKS, DISKS, 100),
]
