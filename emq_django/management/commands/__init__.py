"""`manage.py emq_...`: each parses options, calls one function and prints."""
