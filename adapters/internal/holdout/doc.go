// Package holdout measures a policy's savings, and its effect on success, against runs that always use the baseline.
//
// A stated share of runs, assigned at random by run ([Assign]), uses the baseline. Nobody can influence the
// assignment, and every process computes the same one. Everything else that changes affects both arms alike, so the
// difference between them is due to the policy. An [Account] adds up both arms from traces.
//
// # Continuous monitoring
//
// The account is read continuously, and decisions depend on it. A fixed-sample 95 % interval that is checked after
// each run excludes the truth sooner or later with certainty. The intervals here are confidence sequences: the
// probability that any of them, from the first run to the last, excludes the truth is at most 5 %.
//
// Success is binary, and proportion is exact for it: the likelihood of the observations, mixed over all proportions,
// divided by the likelihood at the true one, is a martingale with mean 1, so it ever exceeds 1/alpha with probability
// at most alpha (Ville, 1939; Robbins, 1970). The proportions at which it does not are the interval.
//
// Costs are unbounded, and for them mean is asymptotic: the sequence of Waudby-Smith, Arbour, Sinha, Kennedy and
// Ramdas, "Time-uniform central limit theory and asymptotic confidence sequences" (Annals of Statistics, 2024),
// theorem 2.2, on the log scale. It starts at 50 runs per arm.
//
// A comparison of two arms uses half of alpha for each.
//
// # Success
//
// Shares of right runs are of the runs with a verdict. If the users of both arms report alike, the difference has the
// sign of the true one, even if failures are reported more often than successes. It shows nothing if successes are
// hardly ever reported. Then the shares of all runs that were reported as failed are compared: their difference also
// has the sign of the true one, and is smaller if some failures are not reported.
package holdout
