"""What pytest must not import: it runs in an environment of its own."""

collect_ignore = ["validate.py"]
