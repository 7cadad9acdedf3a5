// Package paper reproduces the tables and figures of "A Unified Approach to Routing and Cascading for LLMs"
// (Dekoninck, Baader, Vechev, ICML 2025) on outcome tables.
//
// Each [Preset] is one experiment. It runs on the tables of an [Env]; where the paper's own data is not available
// offline, the preset accepts the user's copy, and otherwise runs on the SWE-bench and ZeroEval outcomes that the
// project was developed on. A [Page] says which data it used.
//
// Pages hold aggregate figures only, never rows of the data.
package paper
