"""Images and videos: single `values`, lists `reading`, and the `tags` that stand in a file."""
