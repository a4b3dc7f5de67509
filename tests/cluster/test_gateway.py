"""What a Dask Gateway is asked for, up to the calls of dask-gateway."""

from __future__ import annotations

import dataclasses
import sys
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest
from distributed import Client

from dhsic.cluster import Adaptive, ClusterSpec, connect
from dhsic.cluster import Gateway as Section
from dhsic.errors import (
    ClusterError,
    InsecureWarning,
    InvalidArgumentError,
    MissingDependencyError,
)

SECTION = Section("https://gateway.example.org", auth="basic", image="i:1", options={"cores": 2})
SPEC = ClusterSpec("gateway", 2, timeout=30.0, gateway=SECTION)


class Library:
    """Stands for the gateway and its cluster, in the order of the calls."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.calls: list[Any] = []
        self.options: dict[str, Any] = {"cores": 1, "image": "default"}
        self.broken: Exception | None = None

    def connected(self, **arguments: Any) -> Any:
        self.calls.append(arguments)
        return self._closing("gateway closed")

    @contextmanager
    def _closing(self, name: str) -> Any:
        try:
            yield self
        finally:
            self.calls.append(name)

    def cluster_options(self) -> dict[str, Any]:
        if self.broken is not None:
            raise self.broken
        return self.options

    def new_cluster(self, options: Any, **arguments: Any) -> Any:
        self.calls.append((dict(options), arguments))
        return self._closing("cluster closed")

    def scale(self, count: int) -> None:
        self.calls.append(("scale", count))

    def adapt(self, **bounds: int) -> None:
        self.calls.append(("adapt", bounds))

    def get_client(self) -> Any:
        return Client(self.address, set_as_default=False)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch, client: Client) -> Library:
    made = Library(client.scheduler.address)
    module = ModuleType("dask_gateway")
    module.Gateway = made.connected  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "dask_gateway", module)
    return made


@pytest.mark.parametrize(
    ("workers", "scaled"),
    [(2, ("scale", 2)), (Adaptive(5, 2), ("adapt", {"minimum": 2, "maximum": 5}))],
)
def test_connect__asks_for_a_cluster_and_stops_it(
    library: Library, workers: Any, scaled: Any
) -> None:
    with connect(dataclasses.replace(SPEC, workers=workers)) as client:
        assert client.submit(sum, [1, 2], pure=False).result(timeout=30) == 3
    assert library.calls == [
        {"address": "https://gateway.example.org", "auth": "basic"},
        ({"cores": 2, "image": "i:1"}, {"shutdown_on_close": True}),
        scaled,
        "cluster closed",
        "gateway closed",
    ]


def test_connect__refuses_an_option_that_the_gateway_does_not_offer(library: Library) -> None:
    library.options = {"core": 1, "image": ""}
    with (
        pytest.raises(InvalidArgumentError, match="no option 'cores'; did you mean 'core'"),
        connect(SPEC),
    ):
        pass
    assert library.calls[1:] == ["gateway closed"]


@pytest.mark.parametrize("insecure", [True, False])
def test_connect__plain_http_must_be_allowed(library: Library, insecure: bool) -> None:
    section = dataclasses.replace(SECTION, address="http://gateway.example.org")
    spec = dataclasses.replace(SPEC, gateway=section, insecure=insecure)
    refused = pytest.raises(InvalidArgumentError, match="the way to the gateway at http://gateway")
    with pytest.warns(InsecureWarning) if insecure else refused, connect(spec):
        pass
    assert bool(library.calls) is insecure


def test_connect__plain_http_on_this_machine(library: Library) -> None:
    section = dataclasses.replace(SECTION, address="http://127.0.0.1:8000")
    with connect(dataclasses.replace(SPEC, gateway=section)):
        pass
    assert library.calls[0]["address"] == "http://127.0.0.1:8000"


def test_connect__repeats_what_the_gateway_says(library: Library) -> None:
    library.broken = OSError("401: Unauthorized")
    with pytest.raises(ClusterError, match="starts no cluster: 401: Unauthorized"), connect(SPEC):
        pass


def test_connect__names_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask_gateway", None)
    with (
        pytest.raises(MissingDependencyError, match=r"pip install 'dhsic\[gateway\]'"),
        connect(SPEC),
    ):
        pass
