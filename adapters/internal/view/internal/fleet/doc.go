// Package fleet makes up the traces of a fleet of agents, for tests and pictures: the
// step engine decides, models and verifiers are drawn. The same seed gives the same
// traces.
package fleet
