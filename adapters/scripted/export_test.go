package scripted

// What the tests outside this package use.
var CountTokens = countTokens
