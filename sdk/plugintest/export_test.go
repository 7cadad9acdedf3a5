package plugintest

// A name that only tests outside the package use.
var Configure = configure
