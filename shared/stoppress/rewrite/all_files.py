"""Request that all files of a site are rewritten, after a change of its configuration.

The request sends itself on when its time is over. Its due record is deleted last, so that a request that is lost is made again.
"""

from dataclasses import replace

from stoppress.aws import queues, sites, table
from stoppress.aws.due import SITES
from stoppress.aws.inventory import all_files
from stoppress.aws.queues import BATCH_MESSAGES_MAX, AllFiles, RewriteRequest
from stoppress.primitives.deadline import NEVER, Deadline


def request_all(request: AllFiles, deadline: Deadline = NEVER) -> int:
    """Send a request for each file until the deadline, the newest shards first. Return the number of files.

    Raises BadConfiguration, SendError, and the table's errors.
    """
    site = sites.reload(request.site)
    # Always with robots.txt: an earlier configuration may have had it written.
    files = sorted(all_files(site, robots=True), reverse=True) if site else []
    files = [file for file in files if not request.below or file < request.below]
    for start in range(0, len(files), BATCH_MESSAGES_MAX):
        if deadline.is_over():
            queues.send_rewrites([replace(request, below=files[start - 1])] if start else [request])
            return start
        batch = files[start : start + BATCH_MESSAGES_MAX]
        queues.send_rewrites([RewriteRequest(request.site, file, checks_all=True) for file in batch])
    if not (site and site.fault):  # roll_window reports an unreadable version for as long as its record is there
        table.delete(SITES, request.due)
    return len(files)
