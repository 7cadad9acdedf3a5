package scripted

// A name that only tests outside the package use.
var CountTokens = countTokens
