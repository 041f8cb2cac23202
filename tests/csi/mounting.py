"""Mounts and loop devices, by the programs that an administrator has for them."""

from __future__ import annotations

import os
import re
import subprocess

import grpc

from tests.csi.services import Refusal


def run(*command):
    """Run a program; a failure is the driver's internal error."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        text = f"{' '.join(command)}: {done.stderr.strip()}"
        raise Refusal(grpc.StatusCode.INTERNAL, text)
    return done.stdout.strip()


def mounted(path):
    """Tell whether something is mounted at a path."""
    real = os.path.realpath(path)
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        points = [_plain(line.split()[4]) for line in file]
    return real in points


def file_system(path):
    """Return the kind of file system that is mounted at a path; "" if none is."""
    real = os.path.realpath(path)
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        mounts = [line.split() for line in file]
    kinds = [m[m.index("-") + 1] for m in mounts if _plain(m[4]) == real]
    return kinds[-1] if kinds else ""


def _plain(text):
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def bind(source, target, *, readonly=False, flags=()):
    """Mount a file or directory at another place."""
    options = ",".join(["bind", *(["ro"] if readonly else []), *flags])
    run("mount", "-o", options, source, target)


def unmount(path):
    """Unmount all that is at a path."""
    while mounted(path):
        run("umount", path)


def loop_of(image):
    """Return the loop device of an image; "" if it has none."""
    listed = run("losetup", "--noheadings", "--output", "NAME", "--associated", image)
    return listed.split("\n")[0].strip()


def attach(image):
    """Return a loop device of an image."""
    return loop_of(image) or run("losetup", "--find", "--show", image)


def detach(image):
    """Free the loop device of an image."""
    device = loop_of(image)
    if device:
        run("losetup", "--detach", device)
