"""What is timed: it needs the package alone, whose inner parts it calls as they are now."""
