"""A test on the cluster of a gateway, by the Python of an environment with dask-gateway.

Called with the address of the gateway; prints what it found as JSON.
"""

import json
import sys

import numpy as np

import dhsic
from dhsic.cluster import ClusterSpec, Gateway, connect

X, Y = np.random.default_rng(1).standard_normal((2, 24_000, 2))
OPTIONS = {
    "kernels": "gaussian",
    "estimator": dhsic.NystromMHSIC(n_landmarks=30),
    "null": dhsic.Multiplier(20),
    "rng": 0,
}


def main(address):
    section = Gateway(address, auth="basic")
    spec = ClusterSpec("gateway", 2, memory=400 * 10**6, timeout=60.0, gateway=section)
    expected = dhsic.independence_test(X, Y, threads=1, **OPTIONS)
    with connect(spec) as client:
        client.wait_for_workers(2, timeout=60)
        workers = list(client.nthreads())
        found = dhsic.independence_test(X, Y, client=client, **OPTIONS)
    null, other = (result.null_distribution.tolist() for result in (found, expected))
    same = found.statistic == expected.statistic and null == other
    sys.stdout.write(json.dumps({"workers": workers, "same": same}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
