package host

import (
	"maps"
	"os"
	"slices"
)

// allowedEnv are the variables of the host's environment that every plugin gets: those with which programs
// find files and tools, and no secrets.
var allowedEnv = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ",
	"LANG", "LC_ALL", "LC_CTYPE",
	"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
	"SSL_CERT_FILE", "SSL_CERT_DIR",
	"GOROOT", "GOPATH", "GOCACHE", "GOMODCACHE", "GOTMPDIR", "GOTOOLCHAIN",
	"CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "PYENV_ROOT", "VIRTUAL_ENV", "JAVA_HOME", "MAVEN_USER_HOME", "GRADLE_USER_HOME",
	"SYSTEMROOT", "USERPROFILE", "TEMP", "TMP",
}

func environment(c PluginConfig) []string {
	var env []string
	for _, name := range slices.Concat(allowedEnv, c.PassEnv) {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		env = append(env, name+"="+c.Env[name])
	}
	return env
}

// secrets returns the values that must not appear in logs: those of the plugin's own variables.
func secrets(c PluginConfig) []string {
	out := slices.Collect(maps.Values(c.Env))
	for _, name := range c.PassEnv {
		if v := os.Getenv(name); v != "" {
			out = append(out, v)
		}
	}
	return out
}
