// Package queue distributes work over worker processes on other machines: River jobs in a PostgreSQL database, the
// files that they need, and their results.
//
//	q, err := queue.Open(ctx, pool)           // submitter
//	run, err := q.Begin(ctx, "nightly", queue.RunOptions{})
//	done, err := run.Do(ctx, queue.Ticket{Kind: "swe", Name: "task-1", Args: args})
//
//	err := q.Work(ctx, queue.WorkerOptions{   // worker
//		Kinds: map[string]queue.Kind{"swe": {Parallel: 2, Do: handle}},
//	})
//
// # Failures
//
// A ticket is one row of River's table: its arguments, its attempts and, as River's output, its result, which is
// written in the transaction that completes the job. Submitting the same ticket again finds the same row.
//
// Every two seconds a worker renews attempted_at of its running jobs. A job that was not renewed for twenty seconds
// becomes available to other workers; a worker that cannot reach the database for twelve seconds cancels its own
// jobs, so that no two workers run the same job. River's own rescuer uses the clock of one worker and the age of a
// job, which says nothing about a long task; here all times are the database's. A job records what it has finished
// ([Job.Record]), and the next attempt resumes from there ([Job.Records]). There are at most eight attempts.
//
// A run ends with its submitter: after a minute without heartbeats from one, its jobs are cancelled. Beginning a run
// with the same id again returns the results that arrived in the meantime.
//
// Nothing depends on a database session, so PgBouncer can pool transactions. Write access to the database is control
// over what workers run.
package queue
