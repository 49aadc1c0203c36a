"""The one way of a call: plan, gate, check, send, record, rows.

Everybody who makes calls is a source of plans at one end and a taker of outcomes at the other: the Caller
node, ``batch``, ``call``, an agent, the Replayer and ``replay``, a graph. In between there is one way:

1. A **plan** is a `one_call.PlannedCall`: tool, arguments, row; or the reason why there is no call to make.
   Tables are read into plans by `parameter_table`, with the rules of `cell_arguments` for what a cell is as
   an argument. Records are read into plans by `recorded_calls` and `replay_decision`.
2. A **run** is an `engine.Run`: what is one for all its calls, such as the sessions, the servers' present
   `definitions`, the secrets, and the journal, which nobody else opens for it. `Run.call` is the whole way.
3. The run's **gate** allows or denies the call.
4. `one_call.send` **checks** the tool against its pin and the arguments against its schema, and **sends**:
   to a server, or a workflow to the host. With `workers`, other processes make this step; see `worker_side`.
5. `one_call.CallInProgress` makes the **record**, with every secret marked, and the run's journal writes it
   before anybody sees the outcome.
6. `table_run` makes the calls of a table many at a time, hands **rows** on in the order of
   the table, counts, decides what a failure means, and takes over what an interrupted run has done
   (`resuming`). `replaying` does the same for records, and `replay_comparison` says what is different.
"""
