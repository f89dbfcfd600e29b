"""The wire as values: ids, keys, records, and one Call per transition. Standard library only.

::

    (no row) --enqueue, enqueue_lane, enqueue_many, readmit--> pending    enqueue.py
    (no row) --enqueue_at, enqueue_in, readmit---------------> scheduled  enqueue.py
    pending  --claim, take-----------------------------------> active     claim.py
    active   --complete, complete_many-----------------------> (no row)   settle.py
    active   --retry-----------------------------------------> scheduled or dead
    active   --release---------------------------------------> pending
    active   --delay-----------------------------------------> scheduled
    active   --extend, extend_many---------------------------> active
    scheduled--promote---------------------------------------> pending    upkeep.py
    active   --reap------------------------------------------> pending or dead
    active   --hand_back (by token, for a lost worker)-------> pending or dead  recover.py
    dead     --reprocess-------------------------------------> pending    operate.py
    any      --remove, drain, obliterate---------------------> (no row)
    waiting  --reassign--------------------------------------> waiting    lanes.py
    any      --progress, add_log-----------------------------> unchanged  notes.py
    (no row) --fire (a due repeat)---------------------------> pending    repeats.py
    any      --counts, look, page, row, state----------------> unchanged  read.py

"pending" is the queue's flat set or, for a job with a lane, the lane's own set.
"""
