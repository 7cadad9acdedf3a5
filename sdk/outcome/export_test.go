package outcome

// A name that only tests outside the package use.
const SignalLogProb = signalLogProb
