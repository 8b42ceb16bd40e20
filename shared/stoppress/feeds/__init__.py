"""Feeds: what one says (`documents` → `reading` → `events`), and when to ask it again (`hints` → `schedule`).

Nothing is imported here, because whoever remembers when a feed is due should not pay for reading it.
"""
