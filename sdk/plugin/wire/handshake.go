package wire

import (
	"os"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

const (
	// ProtocolVersion is the version of the protocol, the number in the name of
	// its protobuf package.
	ProtocolVersion = 1
	// LifelineEnv names the environment variable with the number of a file
	// descriptor. It reaches its end when the host is gone, and the plugin exits.
	LifelineEnv = "STEPFALL_PLUGIN_LIFELINE_FD"
	// maxMessageBytes is the largest message in either direction.
	maxMessageBytes = 64 << 20
	// FeatureModelCalls is the feature of a plugin that asks the host to call models.
	FeatureModelCalls = "model_calls"
)

// Handshake returns what go-plugin needs on both sides to recognise a stepfall plugin. The
// cookie tells a program that a host started it; it is no secret.
func Handshake() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{MagicCookieKey: "STEPFALL_PLUGIN", MagicCookieValue: "7f3e1c0a-step-by-step-fall"}
}

// IsStartedByHost reports whether a host has started this program.
func IsStartedByHost() bool {
	h := Handshake()
	return os.Getenv(h.MagicCookieKey) == h.MagicCookieValue
}

// DialOptions returns the connection settings of a host.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithDefaultCallOptions(
		grpc.MaxCallRecvMsgSize(maxMessageBytes),
		grpc.MaxCallSendMsgSize(maxMessageBytes),
	)}
}
