"""An object store for the tests of this folder."""

import os
from functools import cache

import pytest
from botocore import loaders
from fsspec.config import conf

from tests.io.object_store import Proxy, environment, running_server


@pytest.fixture(scope="session")
def server():
    """The port of a moto server with one bucket.

    What botocore says of S3 is read once here, and not by every client.
    """
    with pytest.MonkeyPatch.context() as patch, running_server() as port:
        patch.setattr("botocore.session.create_loader", cache(loaders.create_loader))
        yield port


@pytest.fixture
def s3(server, monkeypatch):
    """The environment of a user of the server."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name, value in environment(server).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def proxy(server, s3, monkeypatch):
    """A proxy before the server, which the environment names."""
    started = Proxy(server)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{started.port}")
    yield started
    started.close()


@pytest.fixture(params=["obstore", "fsspec"])
def library(request, monkeypatch):
    """Both libraries that read S3; a setting of fsspec for S3 chooses that."""
    if request.param == "fsspec":
        monkeypatch.setitem(conf, "s3", {"use_ssl": False})
    return request.param
