"""Speed of the hot paths from commit to commit, by airspeed velocity (extra `asv`).

In this folder:

    asv machine --yes                        # once: describes the machine
    asv run                                  # the head of main, in an environment of its own
    asv run NEW                              # commits since the last that was measured
    asv continuous --factor 1.1 main HEAD    # two commits side by side; fails where one is slower
    asv run --python=same --quick            # the code at hand, every benchmark once
    asv publish && asv preview               # pictures of the history

`--bench Passes` takes those whose names match. Times are of one BLAS thread.
"""
