"""Lift the quarantine of a pod.

A pod whose handling killed its process three times is left alone, so that it cannot take the node
down. When the cause is mended, this lets it be handled again. 'kubeletctl status' lists such pods.
"""

from __future__ import annotations

import argparse

from kubeletctl import control
from kubeletctl.context import Context
from kubeletctl.errors import OK
from kubeletctl.output import Format, emit
from kubeletctl.words import plain

PATIENCE = 10.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the pod."""
    parser.add_argument("pod", metavar="pod-uid", help="the UID of the pod")


def run(options: argparse.Namespace, context: Context) -> int:
    """Ask the supervisor to forget what is held against the pod."""
    control.ask(context.run_dir, {"do": "release", "pod": options.pod}, PATIENCE)
    if context.output is Format.TEXT:
        print(f"pod {plain(options.pod)} is handled again")
    else:
        emit({"released": options.pod}, context.output)
    return OK
