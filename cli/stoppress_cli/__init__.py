"""The command line of Stoppress and the stack on one machine, built from template.yaml."""
