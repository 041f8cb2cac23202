"""Plugins register over real sockets: our driver, the published one, and bad ones."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from kubelet.channels.messages import RegisterCsiDriver, UnregisterCsiDriver
from procs.volumes.csi.errors import CsiError
from procs.volumes.csi.wire import csi_pb2 as pb
from tests.csi.controls import FAIL
from tests.csi.process import CsiDriverProcess
from tests.csi.registrar import Registrar, socket_of
from tests.unit.csi_drivers.scene import Scene

NAME = "mounts.csi.test"


async def status(registrar):
    """What the kubelet says to a plugin next."""
    return await asyncio.to_thread(registrar.statuses.get, timeout=20)


def test_a_driver_that_is_there_and_one_that_comes_are_registered(place):
    """L-40, L-41: both are asked about the node, known to the API server, told so, and usable."""

    async def story():
        flags = ("--max-volumes", "5", "--topology", "zone=a")
        async with Scene(place) as scene:
            first = CsiDriverProcess(place / "1", *flags, registry=scene.registry, name="one.test")
            second = CsiDriverProcess(place / "2", registry=scene.registry / "sub", name="two.test")
            with first:
                scene.begin()
                with second:
                    await scene.until(lambda: scene.drivers.names() == ("one.test", "two.test"))
                    for driver in (first, second):
                        told = (
                            await asyncio.to_thread(driver.await_call, "NotifyRegistrationStatus")
                        )[0]
                        assert told["request"] == {"plugin_registered": True}
        assert scene.registered("one.test") == [
            RegisterCsiDriver("one.test", "this-node", 5, {"zone": "a"})
        ]
        assert first.methods() == ["GetInfo", "NodeGetInfo", "NotifyRegistrationStatus"]

    asyncio.run(story())


def test_the_published_mock_driver_registers_and_answers(place, mock):
    """L-40, L-43: a driver of others, with a registrar at its side, is one of this node's."""

    async def story():
        async with Scene(place) as scene:
            scene.begin()
            with Registrar(
                socket_of(scene.registry, mock.name), mock.name, mock.endpoint, ["1.2.0"]
            ) as registrar:
                assert await status(registrar) == (True, "")
                driver = scene.drivers.get(mock.name)
                assert driver.node_id
                stage = pb.NodeServiceCapability.RPC.STAGE_UNSTAGE_VOLUME
                assert stage in await driver.capabilities()
                info = await driver.call(
                    "GetPluginInfo", pb.GetPluginInfoRequest(), pb.GetPluginInfoResponse
                )
                assert info.name == mock.name
                assert scene.registered(mock.name)[0].max_volumes == 7

    asyncio.run(story())


def test_a_socket_that_goes_takes_its_driver_along_and_one_made_anew_brings_it_back(place):
    """L-40: gone means unregistered; one that is killed and comes again needs nobody's help."""

    async def story():
        async with Scene(place) as scene:
            with CsiDriverProcess(place / "d", registry=scene.registry) as driver:
                scene.begin()
                await scene.until(lambda: scene.drivers.get(NAME))
                await asyncio.to_thread(driver.await_call, "NotifyRegistrationStatus")
                before = scene.drivers.get(NAME)
                driver.kill()
                assert scene.drivers.get(NAME) is before  # the socket is there still
                driver.start()
                await scene.until(lambda: scene.drivers.get(NAME) is not before)
                await asyncio.to_thread(driver.await_call, "NotifyRegistrationStatus", 2)
                assert UnregisterCsiDriver(NAME) not in scene.asked
                driver.stop()
                await scene.until(lambda: UnregisterCsiDriver(NAME) in scene.asked)
                assert scene.drivers.names() == ()
                assert scene.changes == [NAME, NAME, NAME]

    asyncio.run(story())


def test_a_successor_registers_every_driver_anew(place):
    """A volumes process that died leaves nothing to do for drivers: the next one finds them."""

    async def story():
        async with Scene(place) as scene:
            with CsiDriverProcess(place / "d", registry=scene.registry) as driver:
                scene.begin()
                await scene.until(lambda: scene.drivers.get(NAME))
                scene.registration.close()
                scene.begin()
                await scene.until(lambda: scene.drivers.get(NAME))
                await asyncio.to_thread(driver.await_call, "NodeGetInfo", 2)

    asyncio.run(story())


def test_a_driver_that_fails_is_told_and_tried_again(place):
    """L-41: NodeGetInfo that fails twice works at the third time, without anybody's doing."""

    async def story():
        async with Scene(place) as scene:
            driver = CsiDriverProcess(place / "d", registry=scene.registry)
            driver.fault("NodeGetInfo", FAIL, times=2, code=14)
            with driver:
                scene.begin()
                await scene.until(lambda: scene.drivers.get(NAME))
                told = await asyncio.to_thread(driver.await_call, "NotifyRegistrationStatus", 3)
            errors = [call["request"].get("error", "") for call in told]
            assert ["NodeGetInfo" in error for error in errors] == [True, True, False]

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["DevicePlugin", "DRAPlugin", "Other"])
def test_a_plugin_of_another_type_is_told_that_nobody_handles_it(place, kind):
    """L-40: it gets a sentence, once, and nothing is registered."""

    async def story():
        async with Scene(place) as scene:
            scene.begin()
            with Registrar(socket_of(scene.registry, "d"), "d", "/x", ["1.0"], kind=kind) as plugin:
                registered, error = await status(plugin)
                assert not registered
                assert kind in error
                assert scene.drivers.names() == ()

    asyncio.run(story())


def test_a_second_plugin_of_a_name_waits_until_the_first_is_gone(place, mock):
    """L-41: refused with a sentence while the name is taken, registered at once when it is free."""

    async def story():
        async with Scene(place) as scene:
            scene.begin()
            one = Registrar(socket_of(scene.registry, "a"), mock.name, mock.endpoint)
            two = Registrar(socket_of(scene.registry, "b"), mock.name, mock.endpoint)
            with two, one:
                taken = await status(two), await status(one)
                assert sorted(registered for registered, _ in taken) == [False, True]
                winner, loser = (two, one) if taken[0][0] else (one, two)
                winner.stop()
                while not (await status(loser))[0]:
                    pass
                assert scene.drivers.get(mock.name)

    asyncio.run(story())


def test_a_higher_version_takes_a_name_over_and_gives_it_back(place, mock):
    """L-41: the newer one wins; when it goes the older one, which is still there, is used again."""

    async def story():
        async with Scene(place) as scene:
            scene.begin()
            with Registrar(
                socket_of(scene.registry, "a"), mock.name, mock.endpoint, ["1.0"]
            ) as old:
                assert (await status(old))[0]
                path = socket_of(scene.registry, "b")
                with Registrar(path, mock.name, mock.endpoint, ["1.5.0"]) as new:
                    assert (await status(new))[0]
                    assert scene.drivers.get(mock.name).version == (1, 5)
                assert (await status(old))[0]
                assert scene.drivers.get(mock.name).version == (1, 0)

    asyncio.run(story())


def test_what_is_no_socket_or_hidden_or_dead_harms_nobody(place):
    """L-40: files, hidden names and sockets without a listener are passed by, and drivers come."""

    async def story():
        async with Scene(place) as scene:
            os.makedirs(scene.registry / ".hidden")
            (scene.registry / "file").write_text("no socket")
            dead = socket.socket(socket.AF_UNIX)
            dead.bind(str(scene.registry / "dead.sock"))
            dead.close()
            with (
                Registrar(str(scene.registry / ".x.sock"), "x", "/x") as hidden,
                Registrar(str(scene.registry / ".hidden" / "y.sock"), "y", "/y") as deeper,
                CsiDriverProcess(place / "d", registry=scene.registry),
            ):
                scene.begin()
                await scene.until(lambda: scene.drivers.names() == (NAME,))
            assert (hidden.asked, deeper.asked) == (0, 0)

    asyncio.run(story())


def test_without_the_api_server_a_driver_is_usable_and_is_made_known_at_its_return(place):
    """L-41: volumes can be mounted meanwhile; the return of the connection is waited for."""

    async def story():
        async with Scene(place) as scene:
            scene.error = "no API server"
            with CsiDriverProcess(place / "d", registry=scene.registry) as driver:
                scene.begin()
                told = await asyncio.to_thread(driver.await_call, "NotifyRegistrationStatus")
                assert "no API server" in told[0]["request"]["error"]
                assert scene.drivers.get(NAME)
                scene.error = ""
                scene.connection(connected=True)
                await scene.until(lambda: len(scene.registered(NAME)) >= 2)
                last = (await asyncio.to_thread(driver.await_call, "NotifyRegistrationStatus", 2))[
                    -1
                ]
                assert last["request"] == {"plugin_registered": True}

    asyncio.run(story())


def test_a_node_without_an_api_server_asks_nobody(place):
    """A standalone node registers drivers for itself."""

    async def story():
        async with Scene(place) as scene:
            with CsiDriverProcess(place / "d", registry=scene.registry):
                scene.begin(api_server=False)
                await scene.until(lambda: scene.drivers.get(NAME))
        assert scene.asked == []

    asyncio.run(story())


def test_a_driver_is_asked_anew_how_many_volumes_fit(place):
    """L-41: with a period in its CSIDriver, what is different is told to the API server."""

    async def story():
        async with Scene(place) as scene:
            driver = CsiDriverProcess(place / "d", "--max-volumes", "3", registry=scene.registry)
            with driver:
                scene.begin()
                await scene.until(lambda: scene.registered(NAME))
                driver.set(max_volumes=9)
                scene.row(NAME, update_seconds=1)
                await scene.until(lambda: scene.registered(NAME)[0].max_volumes == 9)
                await asyncio.to_thread(driver.await_call, "NodeGetInfo", 3)
                assert len(scene.registered(NAME)) == 2  # what is the same is not told again

    asyncio.run(story())


def test_a_refresh_of_a_driver_that_refuses_says_why(place):
    """L-17: whoever found no room asks at once, and learns what the driver said."""

    async def story():
        async with Scene(place) as scene:
            with CsiDriverProcess(place / "d", registry=scene.registry) as driver:
                scene.begin()
                await scene.until(lambda: scene.registered(NAME))
                driver.fault("NodeGetInfo", FAIL, code=13, message="out of order")
                with pytest.raises(CsiError, match="out of order"):
                    await scene.registration.refresh(NAME)

    asyncio.run(story())
