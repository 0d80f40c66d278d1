#!/bin/sh
# Fetches the Apicurio Schema Registry from Maven Central: fetch.sh FOLDER
set -eu

folder=$1
version=3.0.9
artifact=io.apicurio:apicurio-registry-app:$version:tar.gz:all

if ! command -v mvn >/dev/null; then
    echo "mvn is not installed (Debian: apt-get install maven)" >&2
    exit 1
fi

# A fetch that breaks off must not look like a whole one.
rm -rf "$folder.part"
mkdir -p "$folder.part"
part=$(cd "$folder.part" && pwd)
# Plugin 2.8: later ones read the parent of the artifact's project, which is not in the repository.
mvn --quiet --batch-mode --no-transfer-progress -Dstyle.color=never \
    org.apache.maven.plugins:maven-dependency-plugin:2.8:copy -Dartifact=$artifact -DoutputDirectory="$part"
tar -xzf "$part"/*.tar.gz -C "$part"
rm "$part"/*.tar.gz
mv "$part"/*-runner.jar "$part/registry.jar"
rm -rf "$folder"
mv "$folder.part" "$folder"
