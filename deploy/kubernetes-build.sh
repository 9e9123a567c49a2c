#!/bin/sh
# Fills the folder that is its argument for `make test-kubernetes`: a real Kubernetes 1.20.2 (API
# server, controller manager, scheduler, kubelet) built from Debian's source package, and Debian's
# etcd, image registry, busybox and network plugins. Installs nothing. Takes about 20 minutes of one
# core; started again after an interruption, it goes on.
set -eu

stop() { printf 'kubernetes-build: %s\n' "$*" >&2; exit 1; }

into=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$into"
command -v apt-get >/dev/null 2>&1 || stop "this needs apt-get, of Debian or Ubuntu."
[ "$(dpkg --print-architecture)" = amd64 ] || stop "this was tried on amd64 only."

# --- Debian's packages, in an apt of our own, so that the system's knows nothing of them ----------
# shellcheck disable=SC2016  # apt replaces it
mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -m1 '/debian/$' ||
    echo http://deb.debian.org/debian)
source="[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm main"
from_debian() {
    apt-get -qq -o Dir::Etc::sourcelist="$into/apt/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State="$into/apt/state" -o Dir::State::status="$into/apt/status" \
        -o Dir::Cache="$into/apt/cache" -o APT::Sandbox::User=root "$@"
}
sums='3d3fdbe91d4660c873e14b092c213fe81c1da6362daa236eb25d0171eb108744  busybox-static_1%3a1.35.0-4+deb12u1+b1_amd64.deb
4cac8143474d1249b19f7b0e80b8d0daaa6dfdaa8bd514bc468d38d4a108099f  containernetworking-plugins_1.1.1+ds1-3+b5_amd64.deb
a9bd06c0e006854608f8469b4371743f40604ad90975532bb3b7ceeb72fe2913  docker-registry_2.8.2+ds1-1_amd64.deb
3a9445d4560ad6de1c375756b2a17d97713df44cbd20a658c871fe108af7ef5d  etcd-server_3.4.23-4+b4_amd64.deb
545123039b6c79e75cf2d86528781a825424cf33ce9d3f4513d772d7144cd531  golang-1.19-go_1.19.8-2_amd64.deb
2dfa82fe4f08f4e0193c532e561af4c91871f5235608f04f2bb8d57bb288df5a  golang-1.19-src_1.19.8-2_all.deb
af150a5172cf4c19bb321a53e67103e7fb18d07c1baa1e816a235155265d3948  golang-github-modern-go-reflect2-dev_1.0.2-2_all.deb
b83c0780efb182d928dc63d46488a847f161f04e40a94b96bf5247dd671ecdfc  kubernetes_1.20.5+really1.20.2.orig.tar.gz'
verified() { (cd downloads && echo "$sums" | sha256sum --check --status 2>/dev/null); }
mkdir -p apt/state/lists/partial apt/cache/archives/partial downloads bin cni
if ! verified; then
    : >apt/status
    printf 'deb %s\ndeb-src %s\n' "$source" "$source" >apt/sources.list
    from_debian update
    (
        cd downloads
        from_debian download busybox-static containernetworking-plugins docker-registry etcd-server \
            golang-1.19-go golang-1.19-src golang-github-modern-go-reflect2-dev
        from_debian source --download-only kubernetes
    )
    verified || stop "Debian's packages do not have the sums that are written down in this script."
fi
rm -rf debian
for deb in downloads/*.deb; do dpkg-deb -x "$deb" debian; done
cp debian/usr/bin/etcd debian/usr/bin/docker-registry debian/bin/busybox bin/
cp debian/usr/lib/cni/ptp debian/usr/lib/cni/host-local debian/usr/lib/cni/loopback cni/

# --- Kubernetes -----------------------------------------------------------------------------------
k8s=$into/gopath/src/k8s.io/kubernetes
unpack() {
    rm -rf gopath
    mkdir -p "$k8s"
    tar -xzf downloads/kubernetes_*.orig.tar.gz -C "$k8s" --strip-components=1
    # The vendored reflect2 crashes under Go 1.18 and newer on the first custom resource.
    reflect=$k8s/vendor/github.com/modern-go/reflect2
    rm "$reflect"/*.go "$reflect"/*.s
    cp debian/usr/share/gocode/src/github.com/modern-go/reflect2/*.go \
        debian/usr/share/gocode/src/github.com/modern-go/reflect2/*.s "$reflect"
    rm -f "$reflect"/*_test.go
    for package in component-base client-go/pkg; do
        sed -i 's/"v0\.0\.0-master+.*"/"v1.20.2"/' "$k8s/staging/src/k8s.io/$package/version/base.go"
    done
    touch gopath/unpacked
}
describe_api() { # code that upstream's build generates, and that no archive holds
    go build -p 1 -o "$into/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
    described=$(grep -rlE '^// \+k8s:openapi-gen=true' --include='*.go' pkg cmd staging plugin |
        xargs -n1 dirname | sort -u |
        grep -vE 'codegen|code-generator|sample-apiserver|_test|/testdata' |
        sed 's#^staging/src/#k8s.io/kubernetes/vendor/#; t; s#^#k8s.io/kubernetes/#' | paste -sd,)
    "$into/openapi-gen" --logtostderr -i "$described" -p k8s.io/kubernetes/pkg/generated/openapi \
        -O zz_generated.openapi -h hack/boilerplate/boilerplate.generatego.txt \
        -r "$into/openapi-violations" --output-base "$GOPATH/src"
}
export GOROOT="$into/debian/usr/lib/go-1.19" GOPATH="$into/gopath" GOCACHE="$into/gocache" \
    GO111MODULE=off CGO_ENABLED=0 GOFLAGS='' PATH="$into/debian/usr/lib/go-1.19/bin:$PATH"
for program in kube-apiserver kube-controller-manager kube-scheduler kubelet; do
    [ ! -x "bin/$program" ] || continue
    if [ ! -e gopath/unpacked ]; then unpack; fi
    echo "kubernetes-build: building $program" >&2
    (
        cd "$k8s"
        if [ ! -e pkg/generated/openapi/zz_generated.openapi.go ]; then describe_api; fi
        go build -p 1 -ldflags "-s -w" -o "$into/bin/$program.part" "./cmd/$program"
    )
    mv "bin/$program.part" "bin/$program"
done
rm -rf apt debian gopath gocache openapi-gen openapi-violations # 3 GB that only the build needs
