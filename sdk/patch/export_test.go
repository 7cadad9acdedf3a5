package patch

// A name that only tests outside the package use.
const Whole = whole
