"""Which version of an API the API server has: of those that are young, none or any of several."""

from __future__ import annotations

import asyncio
from typing import Final

from procs.node.apiserver.types import Api, ApiError, Json

GROUP: Final = "/apis/certificates.k8s.io"
TRUST_BUNDLES: Final = "clustertrustbundles"
POD_CERTIFICATES: Final = "podcertificaterequests"
# The oldest forms of a request for a certificate say other things, so they are not asked for.
VERSIONS: Final = {
    TRUST_BUNDLES: ("v1", "v1beta1", "v1alpha1"),
    POD_CERTIFICATES: ("v1", "v1beta1"),
}


class Served:
    """Finds the version of each resource, and keeps what it found."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._found: dict[str, str] = {}
        self._asking = asyncio.Lock()

    async def version(self, resource: str) -> str:
        """Return the newest version that both sides have; "": the server has none (ApiError)."""
        async with self._asking:
            for version in VERSIONS[resource] if resource not in self._found else ():
                if await self._has(version, resource):
                    self._found[resource] = version
                    break
            return self._found.get(resource, "")

    def forget(self, resource: str) -> None:
        """Ask again the next time: the server is another, or has changed its mind."""
        self._found.pop(resource, None)

    async def _has(self, version: str, resource: str) -> bool:
        try:
            answer = await self._api.get(f"{GROUP}/{version}")
        except ApiError as err:
            if err.not_found:
                return False
            raise
        return resource in _names(answer)


def _names(answer: Json) -> set[str]:
    resources = answer.get("resources")
    listed = resources if isinstance(resources, list) else []
    return {str(one.get("name")) for one in listed if isinstance(one, dict)}
