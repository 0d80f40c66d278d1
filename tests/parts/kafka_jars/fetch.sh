#!/bin/sh
# Fetches the jars of a Kafka broker from Maven Central: fetch.sh FOLDER
set -eu

folder=$1
pom=$(dirname "$0")/pom.xml

if ! command -v mvn >/dev/null; then
    echo "mvn is not installed (Debian: apt-get install maven)" >&2
    exit 1
fi

# A fetch that breaks off must not look like a whole one.
rm -rf "$folder.part"
mkdir -p "$folder.part"
part=$(cd "$folder.part" && pwd)
mvn --quiet --batch-mode --no-transfer-progress -Dstyle.color=never --file "$pom" \
    dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$part"
rm -rf "$folder"
mv "$folder.part" "$folder"
