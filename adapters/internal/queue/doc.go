// Package queue has work done by processes on other machines: jobs of River in a
// PostgreSQL database, what they need, and what comes of them.
//
//	q, err := queue.Open(ctx, pool)           // who has work
//	run, err := q.Begin(ctx, "nightly")
//	done, err := run.Do(ctx, queue.Ticket{Kind: "swe", Name: "task-1", Args: args})
//
//	err := q.Work(ctx, queue.WorkerOptions{   // who does it
//		Kinds: map[string]queue.Kind{"swe": {Parallel: 2, Do: handle}},
//	})
//
// # What is lost and what is not
//
// A worker says every two seconds that it is alive. One that was not heard of for
// twenty seconds is lost, and its jobs are taken by others; one that cannot reach the
// database for twelve seconds ends its jobs itself, so that no two work on one. All
// times are by the database's clock.
//
// A job writes down what it has finished ([Job.Record]); who takes it over reads that
// ([Job.Records]) and goes on from there. A result is written down before the job
// ends. A job is tried at most eight times.
//
// A run ends with its submitter: when that was not heard of for a minute, its jobs
// are not begun and those at work end. The same run, begun again, has the results that
// came in the meantime.
//
// # Poolers
//
// Nothing is kept in a session: workers ask for jobs twice a second, and more often
// while there are some. PgBouncer may pool transactions.
//
// # Trust
//
// Who can write to the database decides what workers run.
package queue
