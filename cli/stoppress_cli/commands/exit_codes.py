"""Exit codes of all commands; each command's help says what the first two mean there."""

OK = 0
# The command worked, and its result asks for attention: a difference, a finding, an item that stays.
ATTENTION = 1
# The command could not do its work.
FAILED = 2
