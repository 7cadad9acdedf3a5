// Package queue distributes work over processes on other machines: jobs of River in a
// PostgreSQL database, the files that they need, and their results.
//
//	q, err := queue.Open(ctx, pool)           // who has work
//	run, err := q.Begin(ctx, "nightly", queue.RunOptions{})
//	done, err := run.Do(ctx, queue.Ticket{Kind: "swe", Name: "task-1", Args: args})
//
//	err := q.Work(ctx, queue.WorkerOptions{   // who does it
//		Kinds: map[string]queue.Kind{"swe": {Parallel: 2, Do: handle}},
//	})
//
// # Failures
//
// A ticket is one row of River's table: its arguments, its attempts and, as River's
// output, its result, which is written in the transaction that completes the job. A
// second submitter of the same ticket gets the same row.
//
// Every two seconds a worker renews attempted_at of the jobs it is working on. A job that
// was not renewed for twenty seconds is made available to other workers; a worker that
// cannot reach the database for twelve seconds cancels its own jobs, so that no two
// work on one. River's own rescuer goes by the clock of one worker and by the age of
// a job, which for a long task says nothing; here all times are the database's. A job
// writes down what it has finished ([Job.Record]), and the next attempt goes on from
// there ([Job.Records]). There are at most eight attempts.
//
// A run ends with its submitter: after a minute without one, its jobs are cancelled.
// The same run, begun again, has the results that arrived in the meantime.
//
// Nothing depends on a session of the database: PgBouncer may pool transactions. Who
// can write to the database decides what workers run.
package queue
