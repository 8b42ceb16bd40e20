"""The cost and speed of Stoppress: `make bench` measures, prints a table, and writes results.json."""
