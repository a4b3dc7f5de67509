"""What is timed: needs the package alone, so that it runs with every commit of it."""
