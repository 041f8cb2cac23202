"""What a private containerd is told: its own directories, its own bridge, our pause image."""

from __future__ import annotations

import json
import socket
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.node import images

CNI_PLUGINS = "/usr/lib/cni"  # where Debian puts them
SUBNETS = "10.231.{n}.0/24"
BRIDGES = "kt-10-231-{n}"  # at most 15 characters, and one to one with the subnet


@dataclass(frozen=True, slots=True)
class Place:
    """Where one instance lives; enough to find and remove everything it ever made."""

    directory: Path
    bridge: str
    bridge_index: int  # tells it from a later one with the same name
    subnet: str
    forwarding: str  # what the machine's ip_forward was; the bridge plugin turns it on

    @property
    def name(self) -> str:
        """The instance's name, which is also its network's and its cgroups'."""
        return self.directory.name

    @property
    def gateway(self) -> str:
        """This machine's address on the bridge, once a pod is there."""
        return self.subnet.removesuffix("0/24") + "1"

    @property
    def socket(self) -> Path:
        """The runtime's socket; an address has room for 107 bytes."""
        return self.directory / "c.sock"

    @property
    def root(self) -> Path:
        """What outlives a restart."""
        return self.directory / "root"

    @property
    def state(self) -> Path:
        """Bundles, mounts and network namespaces."""
        return self.directory / "state"

    @property
    def registries(self) -> Path:
        """One directory for each registry host, read at each pull."""
        return self.directory / "certs.d"

    @property
    def config(self) -> Path:
        """The runtime's configuration file."""
        return self.directory / "config.toml"

    def save(self) -> None:
        """Write the place down, so that a later run can clean up after one that was killed."""
        fields = asdict(self)
        del fields["directory"]
        (self.directory / "place.json").write_text(json.dumps(fields))

    @classmethod
    def load(cls, directory: Path) -> Place:
        """The place that was written down here."""
        return cls(directory, **json.loads((directory / "place.json").read_text()))


def reserve_bridge() -> tuple[str, int, str]:
    """Make a bridge with a free name and subnet: its name, index and subnet.

    The kernel lets only one make each name, and it gives each device another index.
    """
    routes = subprocess.run(["ip", "-4", "route"], capture_output=True, text=True, check=True)
    for n in range(1, 255):
        bridge, subnet = BRIDGES.format(n=n), SUBNETS.format(n=n)
        if subnet in routes.stdout:
            continue
        made = subprocess.run(
            ["ip", "link", "add", bridge, "type", "bridge"], capture_output=True, check=False
        )
        if made.returncode == 0:
            return bridge, socket.if_nametoindex(bridge), subnet
    raise RuntimeError(f"no bridge of {BRIDGES.format(n='1..254')} can be made")


def write(place: Place, version: str) -> None:
    """Write everything that the runtime reads."""
    for directory in (place.root, place.state, place.registries, place.directory / "cni"):
        directory.mkdir()
    (place.directory / "cni" / "10-kubelet-test.conflist").write_text(_network(place))
    text = _CONFIGS[version].format(
        place=place,
        directory=place.directory,
        pause=images.PAUSE,
        plugins=CNI_PLUGINS,
    )
    place.config.write_text(text)
    endpoint = f"unix://{place.socket}"
    (place.directory / "crictl.yaml").write_text(
        f"runtime-endpoint: {endpoint}\nimage-endpoint: {endpoint}\ntimeout: 30\n"
        "disable-pull-on-run: true\n"
    )


def _network(place: Place) -> str:
    # No masquerade: pods here talk to each other and to this machine alone.
    bridge = {
        "type": "bridge",
        "bridge": place.bridge,
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(place.directory / "ipam"),
            "ranges": [[{"subnet": place.subnet}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    network = {"cniVersion": "0.4.0", "name": place.name, "plugins": [bridge, portmap]}
    return json.dumps(network, indent=2)


# Both: restrict_oom_score_adj, for runc cannot lower a score without CAP_SYS_RESOURCE and dies;
# network namespaces under the state directory, not in the machine's /run/netns;
# a root for runc and a path for "opt" of our own, not the machine's.
_CONFIGS = {
    "1.6": """version = 2
root = "{place.root}"
state = "{place.state}"
disabled_plugins = ["io.containerd.internal.v1.restart", "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "{place.socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{directory}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{directory}/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{place.registries}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
      Root = "{directory}/runc"
""",
    "2.4": """version = 3
root = "{place.root}"
state = "{place.state}"
imports = []
disabled_plugins = ["io.containerd.monitor.container.v1.restart", "io.containerd.nri.v1.nri",
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs"]
[grpc]
  address = "{place.socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{directory}/opt"
[plugins."io.containerd.shim.v1.manager"]
  socket_dir = "{directory}/s"
[plugins."io.containerd.cri.v1.images"]
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{pause}"
  [plugins."io.containerd.cri.v1.images".registry]
    config_path = "{place.registries}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  cdi_spec_dirs = ["{directory}/cdi"]
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{plugins}"]
    conf_dir = "{directory}/cni"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
      Root = "{directory}/runc"
""",
}
VERSIONS = tuple(_CONFIGS)
