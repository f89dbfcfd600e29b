"""Runs jobs. Knows the protocol and the wire, not Django: that comes in through hooks.

::

    loop.py      report and take, start, wait: the main thread, one screen
    intake.py    takes jobs and lets them begin; waits for them
    crew.py      what is in the worker's hands: jobs in line, jobs that run, ends to be reported
    sources.py   which queue is asked next, and what to do when it can't be
    pace.py      how long its jobs run, and how many are worth being taken ahead
    slots.py     the threads that jobs run on, and the line before them
    hands.py     how many of those are worth being at work at once
    run.py       one job: handler -> outcome -> one settle call
    ends.py      ends of short jobs, reported together; telling.py judges and logs each
    afterwards.py  who asked for it hears of a job's end, when nothing can change it any more
    outcomes.py  the possible outcomes, and the exceptions with which job code names one
    aio.py       the event loop for coroutines; limits.py interrupts plain functions
    settling.py  delivers that call, through lost replies and restarts
    leases.py    renews what is held, notices what was lost
    cadence.py   when to promote and to reap; pauses.py grows pauses
    beat.py      says that the worker is alive, notices.py tells its host; metrics.py counts
    wait.py      how an idle worker waits; watched.py alone, parked.py under a parent,
                 where one child may hear for itself: lookout.py
    watch.py     what is heard of the queues; rivals.py what many trees do about it
    seat.py      a worker's place: alone, or one of several
    supervisor.py  the parent: children.py forks, guard.py enforces, recovery.py hands back
    waking.py    which child goes, in the parent
    table.py     what children hold, where the parent can read it
    cancels.py   tells running jobs that their end was asked for
    strays.py    jobs of a take whose reply was lost
    shutdown.py  signals set flags; ending.py winds down, drain.py hands back
    link.py      a wire that logs its state once per change

Start reading in ``loop.py``; ``options.py`` says what can be set.
"""
