package wire

import (
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

const (
	// ProtocolVersion is the version of the protocol, the number in the name of
	// its protobuf package.
	ProtocolVersion = 1
	// CookieKey and CookieValue tell a program that a host started it. They keep
	// people from running a plugin by hand; they are no secret.
	CookieKey = "STEPFALL_PLUGIN"
	// CookieValue is the value of CookieKey.
	CookieValue = "7f3e1c0a-step-by-step-fall"
	// LifelineEnv names the environment variable with the number of a file
	// descriptor. It reaches its end when the host is gone, and the plugin exits.
	LifelineEnv = "STEPFALL_PLUGIN_LIFELINE_FD"
	// MaxMessageBytes is the largest message in either direction.
	MaxMessageBytes = 64 << 20
	// ReattachEnv names the environment variable that makes hosts use plugins that
	// run already: a JSON object from names of plugins to [Reattach].
	ReattachEnv = "STEPFALL_REATTACH_PLUGINS"
	// FeatureModelCalls is the feature of a plugin that asks the host to call models.
	FeatureModelCalls = "model_calls"
)

// Reattach says where a plugin listens that runs under a debugger.
type Reattach struct {
	Network string `json:"network"`
	Address string `json:"address"`
}

// Handshake returns what go-plugin needs on both sides to recognise a stepfall plugin.
func Handshake() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{
		ProtocolVersion:  ProtocolVersion,
		MagicCookieKey:   CookieKey,
		MagicCookieValue: CookieValue,
	}
}

// DialOptions returns the connection settings of a host.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithDefaultCallOptions(
		grpc.MaxCallRecvMsgSize(MaxMessageBytes),
		grpc.MaxCallSendMsgSize(MaxMessageBytes),
	)}
}
