"""A session for tests of other folders."""

from dhsic.engine.runtime import Runtime
from dhsic.engine.session import Session
from dhsic.io.open import open_variables


def session_on(data, seed=5, precision="float64", memory=2**31, client=None):
    runtime = Runtime.here(2, memory) if client is None else Runtime.on(client, memory)
    return Session(open_variables(data), runtime, seed, precision)
