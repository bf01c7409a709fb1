"""Looking after a store of any kind: backups, checks, and what it holds."""
