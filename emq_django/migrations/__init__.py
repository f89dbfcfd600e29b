"""Migrations of the unmanaged models: content types and permissions only."""
