"""The command line of Stoppress, and a local stack that is built from template.yaml."""
