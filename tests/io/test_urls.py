"""URLs of data: what is refused before anything is asked, and what nobody gets to see."""

from importlib.util import find_spec

import numpy as np
import pytest
from click.testing import CliRunner

import dhsic
from dhsic.cli import main
from dhsic.errors import DhsicError, MissingDependencyError

TEST = ("--variable", "x", "--variable", "y")
REFUSED = [
    ("https://me:secret@host/x", "'https://***@host/x' with one"),
    ("https://secret@host/x", "'https://***@host/x' with one"),
    ("s3://me:sec/r@secret@bucket/x", "'s3://***@bucket/x' with one"),
    ("s3://a:secret@bucket/x", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or"),
    ("gs://a:secret@bucket/x", "set GOOGLE_APPLICATION_CREDENTIALS"),
    ("az://a:secret@bucket/x", "set AZURE_STORAGE_ACCOUNT_NAME"),
    ("https://host/x?sig=secret&se=1", "use the s3, gs or az URL of the data"),
    ("sftp://me:secret@host/x", "use the environment or settings of its library"),
    ("s3://me:secret@host/x?sig=secret", "'s3://***@host/x?***' with one"),
    ("s3://", "must name a bucket, as s3://bucket/songs.zarr, got 's3://'"),
    ("s3:///x.zarr", "must name a bucket"),
    ("https:///x.zarr", "must name a host, as https://host/songs.zarr"),
    ("s4://bucket/x", "must be of a kind that can be read"),
    ("htps://bucket/x", "got 'htps://bucket/x'; did you mean 'https'?"),
    ("simplecache::s3://bucket/x", "must be of a kind that can be read"),
    ("s3://bucket/x\ny", "no control characters"),
]


@pytest.mark.parametrize(("url", "said"), REFUSED)
def test_url__that_cannot_be_read_is_refused_without_its_secrets(url, said):
    done = CliRunner().invoke(main, ["test", url, *TEST])
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    with pytest.raises(DhsicError) as caught:
        dhsic.hsic(url, np.arange(9.0))
    for text in (done.stderr, str(caught.value)):
        assert "secret" not in text


@pytest.mark.parametrize(
    ("url", "library", "extra"),
    [("gs://bucket/x.zarr", "gcsfs", "gcs"), ("az://bucket/x.zarr", "adlfs", "azure")],
)
def test_library__that_is_missing_is_named(url, library, extra):
    if find_spec(library):
        pytest.skip(f"{library} is installed")
    with pytest.raises(MissingDependencyError, match=rf"pip install 'dhsic\[{extra}\]'"):
        dhsic.hsic(url, np.arange(9.0))
