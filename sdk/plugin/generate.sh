#!/usr/bin/env bash
# Writes the Go code of the plugin protocol to the folder $1 (default: where it is committed).
# protoc-gen-go and protoc-gen-go-grpc must be in PATH; `make generate` sees to it.
set -euo pipefail
cd "$(dirname "$0")"
out=${1:-internal/pluginv1}
mkdir -p "$out"
protoc -I proto \
  --go_out="$out" --go_opt=module=github.com/stepfall/stepfall/sdk/plugin/internal/pluginv1 \
  --go-grpc_out="$out" --go-grpc_opt=module=github.com/stepfall/stepfall/sdk/plugin/internal/pluginv1 \
  stepfall/plugin/v1/plugin.proto
cat > "$out/doc.go" <<'GO'
// Package pluginv1 is the generated Go code of version 1 of the plugin protocol,
// whose messages, methods and status codes are explained in
// sdk/plugin/proto/stepfall/plugin/v1/plugin.proto. It stays inside sdk/plugin:
// package wire turns its messages into the types of package sdk, and plugins and
// hosts see only those.
package pluginv1
GO
# The Python template carries its own copy; it is written in place only, since
# every release of protoc writes Python a little differently.
if [ $# = 0 ]; then
  protoc -I proto/stepfall/plugin/v1 --python_out=../../adapters/internal/scaffold/python plugin.proto
fi
# The header names the installed protoc, which differs between machines.
sed -i -e '/^\/\/ \(- \)\?[ \t]*protoc  *v/d' "$out"/*.go
