"""`stoppress check`: the files of a folder or a URL, for the rules in stoppress.checking."""
