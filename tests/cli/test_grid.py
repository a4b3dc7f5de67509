"""Several kernels from the shell."""

from tests.cli.conftest import Invoke, TestJson

FEW = ("--resamples", 20, "--landmarks", 30)


def kernels_of(result):
    return [combination.kernels for combination in result.grid.combinations]


def test_factors__try_bandwidths_of_every_kernel(run_test: TestJson) -> None:
    single = run_test(*FEW, "--kernel", "gaussian")
    result = run_test(*FEW, "--kernel", "gaussian", "--factors", "0.5,1,2", "--combine", "all")
    assert single.grid is None
    assert len(kernels_of(result)) == 9
    assert tuple(v.kernel for v in single.variables) in kernels_of(result)


def test_kernel__may_list_families_and_keep_one_fixed(run_test: TestJson) -> None:
    result = run_test(
        *FEW, "--kernel", "x=gaussian|laplacian", "--kernel", "y=delta", "--factors", 1
    )
    assert [(x.split(":")[0], y) for x, y in kernels_of(result)] == [
        ("gaussian", "delta"),
        ("laplacian", "delta"),
    ]


def test_combine_and_aggregate__reach_the_test(run_test: TestJson) -> None:
    options = (*FEW, "--kernel", "gaussian", "--factors", "0.5,2")
    result = run_test(*options, "--combine", "matched", "--aggregate", "min-p")
    assert len(kernels_of(result)) == 2
    assert result.grid.aggregate == "min-p"
    plain = run_test(*options).grid
    assert (plain.aggregate, round(plain.reference_share, 2)) == ("soft", 0.5)
    assert run_test(*options, "--reference-share", 0).grid.reference_share == 0


def test_table__says_that_the_choice_of_kernels_is_accounted_for(invoke: Invoke, data: str) -> None:
    done = invoke(
        "test", data, "--variable", "x", "--variable", "y", *FEW, "--factors", "0.5,2", "--kernel",
        "gaussian",
    )  # fmt: skip
    line = next(line for line in done.stdout.splitlines() if line.startswith("kernels"))
    assert "2 kernel combinations tried, judged by their soft maximum; p-value corrected" in line


def test_plan__takes_the_grid(invoke: Invoke, data: str) -> None:
    pair = ("--variable", "x", "--variable", "y", "--kernel", "gaussian", "--null", "multiplier")
    one, many = (invoke("plan", data, *pair, *more) for more in ((), ("--factors", "0.25,1,4")))
    assert one.exit_code == many.exit_code == 0
    assert one.stdout != many.stdout
