"""Files to load, and shorthands for loading them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from kubelet import config

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


@dataclass
class Files:
    """A directory of configuration files."""

    root: Path

    def write(self, text, name="kubelet.yaml", *, head=True):
        """Write a file and return its path."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text if isinstance(text, bytes) else ((HEAD if head else "") + text).encode()
        path.write_bytes(data)
        return str(path)

    def load(self, text, *flags):
        """Load a file's text with flags, as a node with an API server would."""
        path = self.write(text)
        return config.load([f"--config={path}", "--kubeconfig=/k", *flags])

    def problems(self, text, *flags):
        """Return what is wrong, with the file's name cut short."""
        with pytest.raises(config.ConfigError) as caught:
            self.load(text, *flags)
        return [line.replace(f"{self.root}/", "") for line in caught.value.problems]


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


@pytest.fixture
def flag_problems():
    """Return what is wrong with a command line."""

    def problems(*argv):
        with pytest.raises(config.ConfigError) as caught:
            config.load(argv)
        return list(caught.value.problems)

    return problems
