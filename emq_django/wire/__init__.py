"""Runs Calls. redis-py, no Django, no knowledge of jobs."""
