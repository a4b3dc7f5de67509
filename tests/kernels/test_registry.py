"""Kernels from text and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhsic.errors import InvalidArgumentError
from dhsic.kernels import (
    Delta,
    Distance,
    Gaussian,
    InverseMultiquadric,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
    parse,
)

SCALES = st.none() | st.floats(min_value=0, exclude_min=True, allow_infinity=False)
SIMPLE = st.one_of(
    st.builds(Gaussian, gamma=SCALES),
    st.builds(Laplacian, gamma=SCALES),
    st.builds(InverseMultiquadric, gamma=SCALES),
    st.builds(
        RationalQuadratic,
        alpha=st.floats(min_value=0, exclude_min=True, allow_infinity=False),
        gamma=SCALES,
    ),
    st.builds(Matern, nu=st.sampled_from([0.5, 1.5, 2.5]), length=SCALES),
    st.builds(
        Polynomial,
        degree=st.integers(1, 50),
        coef0=st.floats(min_value=0, allow_infinity=False),
        gamma=SCALES,
    ),
    st.builds(Distance, exponent=st.floats(min_value=0, max_value=2, exclude_min=True)),
    st.sampled_from([Linear(), Delta()]),
)
EXPRESSIONS = st.recursive(
    SIMPLE,
    lambda k: (
        st.tuples(k, k).map(lambda p: p[0] + p[1]) | st.tuples(k, k).map(lambda p: p[0] * p[1])
    ),
    max_leaves=8,
)


@given(EXPRESSIONS)
def test_parse__reads_what_spec_writes(kernel: Kernel):
    assert parse(kernel.spec()) == kernel


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("gaussian", Gaussian()),
        ("gaussian:0.5", Gaussian(gamma=0.5)),
        ("laplacian", Laplacian()),
        ("laplacian:2", Laplacian(gamma=2.0)),
        ("matern12", Matern(nu=0.5)),
        ("matern32", Matern(nu=1.5)),
        ("matern52:3", Matern(nu=2.5, length=3.0)),
        ("imq:1e-3", InverseMultiquadric(gamma=0.001)),
        ("rq", RationalQuadratic()),
        ("rq:0.5", RationalQuadratic(alpha=0.5)),
        ("rq:0.5:2", RationalQuadratic(alpha=0.5, gamma=2.0)),
        ("linear", Linear()),
        ("polynomial", Polynomial()),
        ("polynomial:2", Polynomial(degree=2)),
        ("polynomial:2:0.5", Polynomial(degree=2, coef0=0.5)),
        ("polynomial:3:1.0:0.5", Polynomial(degree=3, coef0=1.0, gamma=0.5)),
        ("distance:1.5", Distance(exponent=1.5)),
        ("delta", Delta()),
        ("gaussian:0.5+linear", Gaussian(gamma=0.5) + Linear()),
        ("gaussian*delta", Gaussian() * Delta()),
        ("gaussian+linear*delta", Gaussian() + Linear() * Delta()),
        ("(gaussian+linear)*delta", (Gaussian() + Linear()) * Delta()),
        ("gaussian:1e+5+linear", Gaussian(gamma=1e5) + Linear()),
        (" Gaussian : 0.5  + LINEAR ", Gaussian(gamma=0.5) + Linear()),
        ("((delta))", Delta()),
    ],
)
def test_parse__reads(text, kernel):
    assert parse(text) == kernel


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (
            "gausian",
            r"one of gaussian, laplacian, .*, delta, .*; got 'gausian': did you mean 'gaussian'",
        ),
        ("matern", r"did you mean 'matern"),
        ("xyzzy", r"got 'xyzzy': write 'gaussian'"),
        ("", r"must be one of .*; got ''"),
        ("gaussian+", r"must be one of .*; got ''"),
        ("*delta", r"must be one of .*; got '\*'"),
        ("gaussian:-1", r"gaussian: gamma must be a finite number > 0; got -1.0: leave it out"),
        ("gaussian:abc", r"gaussian: gamma must be a finite number > 0; got 'abc'"),
        ("gaussian:", r"gaussian: gamma must be a finite number > 0; got ''"),
        ("gaussian:nan", r"gamma must be a finite number > 0; got nan"),
        ("distance:3", r"distance: exponent must be a number in \(0, 2\]; got 3.0"),
        ("polynomial:0", r"polynomial: degree must be an integer >= 1; got 0.0"),
        ("polynomial:2.5", r"degree must be an integer >= 1; got 2.5"),
        (
            "gaussian:1:2",
            r"kernel gaussian must have at most gamma after colons; got 'gaussian:1:2'",
        ),
        ("delta:1", r"kernel delta must have at most no parameters"),
        ("gaussian@x", "got an unexpected '@x'"),
        ("(gaussian", r"parentheses must pair; got an unexpected '\('"),
        ("gaussian)", r"parentheses must pair; got an unexpected '\)'"),
        ("(gaussian)linear", r"joined by \+ or \*.* got an unexpected 'linear'"),
    ],
)
def test_parse__refuses(text, match):
    with pytest.raises(InvalidArgumentError, match=match):
        parse(text)
