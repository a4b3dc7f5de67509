"""URLs of data."""

import pytest

from dhsic.errors import InvalidArgumentError, MissingDependencyError
from dhsic.io import urls
from dhsic.io.urls import checked_url, is_url, redacted, scheme_of

SHOWN = [
    ("https://me:secret@host/x.zarr", "https://***@host/x.zarr"),
    ("https://secret@host/x.zarr", "https://***@host/x.zarr"),
    ("s3://secret:secret@bucket/x.zarr", "s3://***@bucket/x.zarr"),
    ("s3://me:sec/r@secret@bucket/x.zarr", "s3://***@bucket/x.zarr"),
    ("s3://me:12/secret@bucket/x.zarr", "s3://***@bucket/x.zarr"),
    ("abfs://container:secret@account/x", "abfs://***@account/x"),
    ("https://host/x.zarr?sig=secret&se=1", "https://host/x.zarr?***"),
    ("s3://me:secret@host/x?sig=secret", "s3://***@host/x?***"),
    ("sftp://me:secret@host/x", "sftp://***@host/x"),
]


@pytest.mark.parametrize(("url", "shown"), SHOWN)
def test_redacted__hides_what_may_be_secret(url, shown):
    assert redacted(url) == shown
    text = f"GET {url} failed, and so did\n{url}"
    assert redacted(text) == f"GET {shown} failed, and so did\n{shown}"


CLEAN = [
    "s3://bucket/a@b.zarr",
    "s3://bucket/a:b@c.zarr",
    "https://host:8080/a@b.zarr",
    "abfs://container@account.dfs.core.windows.net/x.zarr",
    "sftp://me@host/x.zarr",
    "/data/x.zarr?",
    "no URL, me:secret@host",
]


@pytest.mark.parametrize("text", CLEAN)
def test_redacted__leaves_what_is_not(text):
    assert redacted(text) == text


@pytest.mark.parametrize(("url", "shown"), SHOWN)
def test_checked_url__refuses_credentials_without_showing_them(url, shown):
    with pytest.raises(InvalidArgumentError, match="no user name, password or query") as caught:
        checked_url(url)
    assert repr(shown) in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("s3://a:b@bucket/x", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or"),
        ("gs://a:b@bucket/x", "set GOOGLE_APPLICATION_CREDENTIALS"),
        ("az://a:b@bucket/x", "set AZURE_STORAGE_ACCOUNT_NAME"),
        ("https://host/x?sig=b", "use the s3, gs or az URL of the data"),
        ("sftp://a:b@host/x", "use the environment or settings of its library"),
    ],
)
def test_checked_url__says_where_credentials_belong(url, remedy):
    with pytest.raises(InvalidArgumentError, match=remedy):
        checked_url(url)


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("s3://", "must name a bucket, as s3://bucket/songs.zarr, got 's3://'"),
        ("s3:///x.zarr", "must name a bucket"),
        ("https:///x.zarr", "must name a host, as https://host/songs.zarr"),
        ("s4://bucket/x", r"must be of a kind that can be read .*got 's4://bucket/x'"),
        ("htps://bucket/x", "got 'htps://bucket/x'; did you mean 'https'?"),
        ("simplecache::s3://bucket/x", "must be of a kind that can be read"),
        ("s3://bucket/x\ny", r"no control characters, got 's3://bucket/x\\ny'"),
        ("s3://bucket/x\x00", "no control characters"),
    ],
)
def test_checked_url__refuses_what_names_no_place(url, match):
    with pytest.raises(InvalidArgumentError, match=match):
        checked_url(url)


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [
        ("s3://bucket/x", "s3fs", "s3"),
        ("gs://bucket/x", "gcsfs", "gcs"),
        ("gcs://bucket/x", "gcsfs", "gcs"),
        ("az://bucket/x", "adlfs", "azure"),
        ("abfss://bucket@account/x", "adlfs", "azure"),
        ("https://host/x", "aiohttp", "http"),
    ],
)
def test_checked_url__names_the_extra_that_is_missing(url, module, extra, monkeypatch):
    monkeypatch.setattr(urls, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError) as caught:
        checked_url(url)
    scheme = url.partition(":")[0]
    assert str(caught.value) == (
        f"reading {scheme}:// URLs needs {module}, which is not installed: "
        f"pip install 'dhsic[{extra}]'"
    )


@pytest.mark.parametrize("installed", ["s3fs", "obstore"])
def test_checked_url__needs_one_of_the_libraries_for_s3(installed, monkeypatch):
    monkeypatch.setattr(urls, "find_spec", lambda name: name == installed or None)
    assert checked_url("s3://bucket/x") == "s3://bucket/x"


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/a b.zarr/", "s3://bucket/a b.zarr"),
        ("memory://x//", "memory://x"),
        ("https://host:80/x", "https://host:80/x"),
    ],
)
def test_checked_url__drops_slashes_at_the_end(url, clean):
    assert checked_url(url) == clean


def test_is_url__tells_from_paths():
    assert is_url("s3://bucket/x")
    assert not any(map(is_url, ["/data/x", "x.zarr", "a::b", "C:/x", "s3:/bucket"]))
    assert [scheme_of(url) for url in ("S3://x", "https://h:80/s3://x")] == ["s3", "https"]


def test_redacted__of_a_redacted_text_is_the_same():
    once = redacted("got 'https://me:secret@h/x?sig=abc' now")
    assert redacted(f"{once}' with") == f"{once}' with"
