"""The one way of a call: plan, hooks, check, make, record, rows.

Everybody who makes calls is a source of plans at one end and a taker of outcomes at the other: the Caller
node, ``batch``, ``call``, an agent, the Replayer and ``replay``, a graph. In between there is one way:

1. A **plan** is a `call_values.PlannedCall`: tool, arguments, row; or the reason why there is no call.
   Tables are read into plans by `argument_sources`, with the rules for what a cell is as an argument. Records
   are read into plans by `replaying`.
2. A **run** is an `engine.Run`, made by `engine.new_run`: what is one for all its calls, such as the
   sessions, the servers' present definitions, the secrets, and the journal, which nobody else opens for it.
   `Run.call` is the whole way.
3. The run's **hooks** allow, deny or edit the call, or let a person decide: an agent's rules are one.
4. `checked_calls.check_call` **checks** the tool against its pin and the arguments against its schema.
5. The call is **made**: `checked_calls.make_here` sends it to a server, or a workflow to the host; with
   `dask_calls`, the workers of a Dask cluster do this. Between 4 and 5 is the one place, `Run._made`, that
   each call of every user passes, checked and not yet sent; what must not be made twice is written ahead
   there.
6. `engine.CallInProgress` makes the **record**, with every secret marked, and the run's journal writes it
   before anybody sees the outcome.
7. `table_run` makes the calls of a table many at a time, hands **rows** on in the order of
   the table, counts, decides what a failure means, and takes over what an interrupted run has done
   (`resuming`). `replaying` does the same for records, and `replay_comparison` says what is different.
"""
