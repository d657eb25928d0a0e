"""Pages from records: `hmnn report`. Sections say what is shown, the page how; nothing is fetched when it is read."""
