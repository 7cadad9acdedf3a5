// Package pluginv1 is the generated Go code of version 1 of the plugin protocol,
// whose messages, methods and status codes are explained in
// sdk/plugin/proto/stepfall/plugin/v1/plugin.proto. It stays inside sdk/plugin:
// package wire turns its messages into the types of package sdk, and plugins and
// hosts see only those.
package pluginv1
