# Serves the sitemaps from the CloudFront distribution that template-cdn.yaml creates, through a backend `sitemaps`: docs/how-to/serve.md.

# Table or dictionary from host to folder: replace the hosts.
table sitemap_folders {
  "www.example.com": "www.example.com",
  "harbour.example.net": "harbour.example.net",
}

# Request condition of the host `sitemaps`:
# req.url.path ~ "^/sitemap[a-z0-9-]*\.(?:xml|xml\.gz|txt|atom)$" && table.contains(sitemap_folders, req.http.host)

# Snippets, each for the subroutine that its comment names:

# recv: ignore the query string
if (req.url.path ~ "^/sitemap[a-z0-9-]*\.(?:xml|xml\.gz|txt|atom)$" && table.contains(sitemap_folders, req.http.host)) {
  set req.url = req.url.path;
}

# miss, and the same in pass
if (req.backend == F_sitemaps) {
  set bereq.url = "/" table.lookup(sitemap_folders, req.http.host) req.url.path;
}

# fetch: serve the last good file while the origin fails
if (req.backend == F_sitemaps) {
  if (beresp.status == 403 || beresp.status == 404) {
    set beresp.cacheable = true;
    set beresp.ttl = 10s;
  } else if (beresp.status == 200) {
    if (!beresp.http.Cache-Control) {
      set beresp.ttl = 60s;
    }
    set beresp.stale_if_error = 86400s;
  } else if (beresp.status >= 500 && stale.exists) {
    return(deliver_stale);
  }
}

# deliver: compress
if (req.backend == F_sitemaps) {
  set resp.http.x-compress-hint = "on";
}
