// Package agents is a benchmark: three agents with tools, tasks with computed ground truth, and scripted models with
// stated error rates, to measure what a policy saves and how many more runs fail. It holds only that benchmark, which
// "make agents" runs, and its tests.
//
// An Agent has a system prompt, tools and tasks; Agent.Run does a Task with any llms.Model and then inspects the
// task's World. The order desk changes orders, the second agent queries a SQLite database, the third works on files
// with a shell in the jail. Runs take three to ten turns.
//
// The scripted Models read the conversation, as real models do: a task knows the correct next move, and a Model makes
// it or errs. It errs where the step is harder than its skill. Difficulty is partly the task's, partly the step's for
// all models, partly the maker's and partly the model's own, so that what is hard for one model is hard for the
// others as well. Wrong moves are typical for the step, and runs continue from their consequences: a wrong order that
// was shown is cancelled, a call that returned an error is retried.
package agents
