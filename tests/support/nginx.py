"""The nginx configuration docs/how-to/sitemaps.conf, run verbatim."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DOCUMENT = Path(__file__).parents[2] / "docs/how-to/sitemaps.conf"
# The placeholders that a reader has to replace; the tests replace nothing else.
PORT, ORIGIN, CACHE = "listen 80;", "https://d111111abcdef8.cloudfront.net/", "/var/cache/nginx/sitemaps"
NO_SITE = "return 404; # your site"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
START_S = 30

SKIPS = [
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed"),
    pytest.mark.skipif(not CERTIFICATES.exists(), reason=f"{CERTIFICATES}, which the configuration names, is not here"),
]


@contextmanager
def nginx(folder: Path, origin: str, site: str | None = None, certificate: Path | None = None) -> Iterator[int]:
    """Run nginx in its own folder in front of `origin`, and yield its port.

    `site` is the origin of everything but the sitemaps. A `certificate`, whose file contains its key, turns on TLS and HTTP/2.
    """
    assert NGINX
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    configuration = DOCUMENT.read_text(encoding="utf-8")
    tls = f" ssl http2; ssl_certificate {certificate}; ssl_certificate_key {certificate};" if certificate else ";"
    places = [(PORT, f"listen 127.0.0.1:{port}{tls}"), (ORIGIN, origin), (CACHE, str(folder / "kept"))]
    for placeholder, here in [*places, *([(NO_SITE, f"proxy_pass {site};")] if site else [])]:
        assert configuration.count(placeholder) == 1, f"{DOCUMENT.name} names {placeholder} not once"
        configuration = configuration.replace(placeholder, here)
    temporary = "".join(
        f"{kind}_temp_path {folder / kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = f"user {getpass.getuser()};\n" if os.geteuid() == 0 else ""
    path = folder / "nginx.conf"
    path.write_text(
        f"{user}daemon off; worker_processes 1; pid {folder / 'pid'}; error_log {folder / 'error.log'};\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{temporary}{configuration}}}\n"
    )
    running = subprocess.Popen(  # noqa: S603 - the document's own configuration
        [NGINX, "-p", folder, "-e", folder / "error.log", "-c", path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        deadline = time.monotonic() + START_S
        while running.poll() is None and time.monotonic() < deadline:
            with socket.socket() as attempt:
                if attempt.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        else:
            log = (folder / "error.log").read_text() if (folder / "error.log").exists() else ""
            pytest.fail(f"nginx does not listen: {log}")
        yield port
    finally:
        running.terminate()
        try:
            running.communicate(timeout=START_S)
        except subprocess.TimeoutExpired:
            running.kill()
            running.communicate()


def certificate_for(host: str, file: Path, begin: datetime, end: datetime) -> Path:
    """Write a self-signed certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    unlocked = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, unlocked)
    file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return file
