package wire

import (
	"os"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

const (
	// ProtocolVersion is the version of the protocol, and of its protobuf package.
	ProtocolVersion = 1
	// LifelineEnv names the environment variable that holds a file descriptor number. The descriptor
	// reaches its end when the host dies; the plugin must then exit.
	LifelineEnv = "STEPFALL_PLUGIN_LIFELINE_FD"
	// maxMessageBytes is the largest message in either direction.
	maxMessageBytes = 64 << 20
	// FeatureModelCalls is the feature of a plugin that calls models through the host.
	FeatureModelCalls = "model_calls"
)

// Handshake returns the config by which go-plugin recognises a stepfall plugin, on both sides. The
// cookie tells a program that a host started it; it is not a secret.
func Handshake() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{MagicCookieKey: "STEPFALL_PLUGIN", MagicCookieValue: "7f3e1c0a-step-by-step-fall"}
}

// IsStartedByHost reports whether a host has started this program.
func IsStartedByHost() bool {
	h := Handshake()
	return os.Getenv(h.MagicCookieKey) == h.MagicCookieValue
}

// DialOptions returns the gRPC dial options of a host.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithDefaultCallOptions(
		grpc.MaxCallRecvMsgSize(maxMessageBytes),
		grpc.MaxCallSendMsgSize(maxMessageBytes),
	)}
}
