// Serves the sitemaps from the CloudFront distribution that template-cdn.yaml creates: docs/how-to/serve.md. Replace its address and the hosts.
const ORIGIN = "https://d111111abcdef8.cloudfront.net";
const FOLDERS = {
  "www.example.com": "www.example.com",
  "harbour.example.net": "harbour.example.net",
};

export default {
  async fetch(request) {
    const url = new URL(request.url);
    const folder = FOLDERS[url.hostname];
    if (!folder || !/^\/sitemap[a-z0-9-]*\.(?:xml|xml\.gz|txt|atom)$/.test(url.pathname)) {
      return fetch(request); // your site
    }
    if (request.method !== "GET" && request.method !== "HEAD") {
      return new Response(null, { status: 405, headers: { allow: "GET, HEAD" } });
    }
    // only conditions go to the distribution, which can answer 304
    const headers = new Headers();
    for (const name of ["if-none-match", "if-modified-since"]) {
      if (request.headers.has(name)) headers.set(name, request.headers.get(name));
    }
    return fetch(`${ORIGIN}/${folder}${url.pathname}`, {
      method: request.method,
      headers,
      cf: { cacheEverything: true, cacheTtlByStatus: { "400-499": 10, "500-599": 0 } },
    });
  },
};
