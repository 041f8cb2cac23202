"""Payloads: MessagePack with plain types only, within limits.

What is read may come from an older version, a broken process or a damaged file, so decoding never
builds anything but dictionaries with string keys, lists, strings, bytes, numbers, booleans and
None, and never more than the input can hold. There is no pickle and there are no extension types.
"""

from __future__ import annotations

from typing import Any, Final

import msgpack

MAX_BYTES: Final = 16 << 20
MAX_ITEMS: Final = 1 << 18  # in one list or map


class EncodeError(ValueError):
    """A value that cannot be stored."""


class DecodeError(ValueError):
    """Bytes that are not a value of ours."""


def pack(value: Any) -> bytes:
    """Return the value as MessagePack. A tuple becomes a list."""
    try:
        data: bytes = msgpack.packb(value, use_bin_type=True)
    except (TypeError, ValueError, OverflowError, RecursionError) as err:
        raise EncodeError(f"cannot be encoded: {err}") from err
    if len(data) > MAX_BYTES:
        raise EncodeError(f"cannot be encoded: {len(data)} bytes; allowed are {MAX_BYTES}")
    return data


def unpack(data: bytes) -> Any:
    """Return the value, or raise DecodeError."""
    if len(data) > MAX_BYTES:
        raise DecodeError(f"{len(data)} bytes; allowed are {MAX_BYTES}")
    # An element takes a byte at least: a short input cannot ask for a long list.
    items = min(MAX_ITEMS, len(data))
    try:
        return msgpack.unpackb(
            data,
            raw=False,
            use_list=True,
            strict_map_key=True,
            ext_hook=_refuse_extension,
            max_str_len=MAX_BYTES,
            max_bin_len=MAX_BYTES,
            max_array_len=items,
            max_map_len=items,
            max_ext_len=0,
        )
    except (ValueError, TypeError, RecursionError, msgpack.exceptions.UnpackException) as err:
        why = str(err) or type(err).__name__
        raise DecodeError(f"{len(data)} bytes that are not a sound value: {why}") from err


def _refuse_extension(code: int, data: bytes) -> Any:
    raise ValueError(f"extension type {code} with {len(data)} bytes")
