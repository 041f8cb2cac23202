"""What a process keeps of root's power: what its kind needs, for good."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from typing import Final

from supervisor import linux
from supervisor.kinds import Kind

# Used when the default user is not on this host: an id that no distribution gives to anybody.
FALLBACK_ID: Final = 51025


@dataclass(frozen=True, slots=True)
class Identity:
    """The user and group of the processes without root."""

    uid: int
    gid: int
    note: str | None = None  # worth telling the operator


def resolve(user: str, default: str) -> Identity:
    """A user name, or ``uid[:gid]``, as an identity. ValueError names what is wrong."""
    first, _, second = user.partition(":")
    if first.isdigit():
        uid = int(first)
        if second and not second.isdigit():
            raise ValueError(f"--unprivileged-user: {user}: the group must be a number")
        return _not_root(Identity(uid, int(second) if second else uid), user)
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        if user != default:
            raise ValueError(f"--unprivileged-user: {user}: no such user on this host") from None
        note = f"no user {user} on this host: processes without root run as uid {FALLBACK_ID}"
        return Identity(FALLBACK_ID, FALLBACK_ID, note)
    return _not_root(Identity(found.pw_uid, found.pw_gid), user)


def _not_root(identity: Identity, user: str) -> Identity:
    if identity.uid == 0 or identity.gid == 0:
        raise ValueError(f"--unprivileged-user: {user}: must be neither root nor in its group")
    return identity


def drop(kind: Kind, identity: Identity) -> None:
    """Give up, in this process and in all that it may start, what its kind does not need."""
    if os.geteuid() == 0:
        keep = linux.capability_mask(kind.capabilities) & linux.permitted_capabilities()
        linux.drop_bounding_set(keep)
        if kind.root:
            # In the group, so that it can speak to the sockets of those without root.
            os.setgroups([identity.gid])
        else:
            os.setgroups([])
            os.setresgid(identity.gid, identity.gid, identity.gid)
            os.setresuid(identity.uid, identity.uid, identity.uid)
        linux.set_capabilities(keep)
    linux.set_no_new_privileges()
