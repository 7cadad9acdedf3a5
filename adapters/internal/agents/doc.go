// Package agents is a bench: three agents with tools, tasks whose truth is computed, and
// scripted models whose errors are stated, to see what a policy saves and what it costs
// in runs that fail. It holds nothing but that measurement, which "make agents" runs, and its tests.
//
// An Agent has a system prompt, tools and tasks; Agent.Run does a Task with any
// llms.Model and looks at what was done to the task's World. The order desk changes
// orders, the second agent asks a SQLite database, the third works on files by a shell
// in the jail. Runs take three to ten turns.
//
// The scripted Models read the conversation, as models do: a task knows what somebody
// who errs nowhere would do next, and a Model does that or errs. It errs where the
// step is harder than its skill; difficulty is partly the task's, partly the step's for
// all models, partly the maker's and partly the model's own, so that what is hard for
// one is hard for the others as well. Wrong moves are those that are usual for the step,
// and runs go on from what comes of them: a wrong order that was shown is cancelled, an
// error that was returned is tried again.
package agents
