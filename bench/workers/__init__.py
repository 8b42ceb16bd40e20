"""What runs in a process of its own: ours and others rendering the same pages."""
