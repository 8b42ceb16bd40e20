"""Checks published sitemaps, anybody's, against the protocol and what the engines document.

    rulebook    every rule by name: id, severity, text, source; and the rules that no file can show
    findings    what was found, bounded
    codes       languages and territories
    values      rules on one value: URLs, dates, texts
    xml         text into entries: a streaming parser that expands nothing
    reading     bytes into text: gzip, encodings, limits
    namespaces  which namespace is meant
    one_pass    the state of one pass over one file
    entries     rules on one `<url>` or `<sitemap>`,
    news        on its news:news,
    media       on its images, videos and alternates
    feeds       rules on RSS and Atom,
    robots      on robots.txt
    documents   rules on one file, whatever it is
    sets        rules on files together: index and children, duplicates, alternates
    serving     rules on headers
    checker     brings these together

Standard library and `stoppress` only. The command `stoppress check` brings folders and URLs; `rendering` holds what it is
about to put to the same rules.
"""
