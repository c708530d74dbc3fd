#!/bin/sh
# Rebuilds the page from the lock file. It must leave no diff in dist/.
set -eu
cd "$(dirname "$0")/web"
npm ci --ignore-scripts
npm run build
