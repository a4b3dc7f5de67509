"""An object store for the tests of this folder."""

import os

import pytest

from tests.io.object_store import Proxy, Website, environment, running_server


@pytest.fixture(scope="session")
def server():
    """The port of a moto server with one bucket."""
    with running_server() as port:
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
    from fsspec.config import conf

    if request.param == "fsspec":
        monkeypatch.setitem(conf, "s3", {"use_ssl": False})
    return request.param


@pytest.fixture
def website(tmp_path):
    """A folder served over http, by its URL, and a way to make it fail."""
    site = Website(tmp_path)
    yield site
    site.close()
