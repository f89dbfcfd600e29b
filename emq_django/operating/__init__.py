"""What the `emq_…` commands do: look at queues and jobs, act on them in bounded steps, and say so.

The commands in ``management/commands`` parse options and call one function from here. ``survey``
reads, ``health`` and ``doctor`` judge, ``steps`` and ``jobs`` act, ``submit`` enqueues;
``terminal``, ``tables``, ``progress`` and ``confirm`` talk to whoever is in front.
"""
