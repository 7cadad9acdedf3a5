// Package holdout measures what a policy saves, and what it does to success, beside runs
// that always ask the baseline.
//
// A stated share of runs goes the baseline's way, drawn by run ([Assign]): a coin that
// nobody can influence, and that each process tosses the same way. Whatever else changes
// in the world changes for both arms alike, so that the difference between them is the
// policy's doing. An [Account] adds up both arms from traces.
//
// # Looking often
//
// The account is read all the time, and somebody acts on what is read. A usual 95 %
// interval that is looked at after each run excludes the truth sooner or later, for
// certain. The intervals here are confidence sequences: the chance that one of them, at
// any time from the first run to the last, misses the truth is at most 5 %.
//
// Success is right or wrong, and proportion is exact for it: the likelihood of what was
// seen, mixed over all proportions, divided by the likelihood at the true one, is a
// martingale of mean 1, so that it ever exceeds 1/alpha with a chance of at most alpha
// (Ville, 1939; Robbins, 1970). The proportions at which it does not are the interval.
//
// Costs have no bound, and for them mean is asymptotic: the sequence of Waudby-Smith,
// Arbour, Sinha, Kennedy and Ramdas, "Time-uniform central limit theory and asymptotic
// confidence sequences" (Annals of Statistics, 2024), theorem 2.2, on the scale of
// logarithms. It begins with 50 runs of an arm.
//
// A comparison of two arms takes half of alpha for each.
package holdout
