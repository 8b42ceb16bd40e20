"""What Stoppress costs and how fast it is: `make bench` measures, prints a table, and writes results.json."""
