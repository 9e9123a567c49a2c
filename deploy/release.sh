#!/bin/sh
# Builds a release into build/release: packages, container image, SBOM, provenance, checksums, and a
# signature over the checksums. `make release SIGNING_KEY=~/.ssh/id_ed25519 [IMAGE=no]`.
# docs/releasing.md has the checklist.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'release: %s\n' "$*" >&2; }
stop() { say "$*"; exit 1; }

[ -z "$(git status --porcelain)" ] || stop "commit or stash your changes first."
[ -n "${SIGNING_KEY:-}" ] || stop "set SIGNING_KEY to the private SSH key that signs releases."
[ -r "$SIGNING_KEY" ] || stop "SIGNING_KEY is not a file that can be read."

out=build/release
commit=$(git rev-parse HEAD)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
source=${SOURCE:-git+$(git remote get-url origin 2>/dev/null || echo file)}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
rm -rf "$out"
mkdir -p "$out"

uv=$(command -v uv || echo build/uv/bin/uv)
"$uv" build --quiet --out-dir "$out"
"$uv" build --quiet --out-dir "$out" deploy/demo
rm -f "$out/.gitignore"
.venv/bin/python deploy/check_supply.py
cp build/sbom.cdx.json "$out/"

set --
if [ "${IMAGE:-yes}" = no ]; then
    say "NOT BUILT: the container image (IMAGE=no)."
else
    base=$(sed -n 's/^ARG BASE=//p' deploy/Dockerfile)
    docker pull --quiet "$base" >/dev/null
    from=$(docker image inspect --format '{{index .RepoDigests 0}}' "$base")
    docker build --quiet --build-arg "BASE=$from" --iidfile "$out/image.id" \
        --label "org.opencontainers.image.revision=$commit" --tag "capuchin:$version" \
        --file deploy/Dockerfile . >/dev/null
    set -- --image "capuchin:$version=$(cat "$out/image.id")" --base "$base=${from##*@}"
    rm "$out/image.id"
fi

.venv/bin/python deploy/provenance.py "$@" --commit "$commit" --source "$source" \
    --builder "${BUILDER:-$(id -un)@$(uname -n)}" "$out"/* >build/provenance.json
mv build/provenance.json "$out/provenance.intoto.json"
(cd "$out" && sha256sum -- * >../SHA256SUMS && mv ../SHA256SUMS .)
ssh-keygen -q -Y sign -n capuchin-release -f "$SIGNING_KEY" "$out/SHA256SUMS"
say "built $version from $commit in $out"
