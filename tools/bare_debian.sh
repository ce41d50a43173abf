#!/usr/bin/env bash
# The two commands of README.md where nothing is installed: a Debian from debootstrap, a clone of the
# current commit, `./dev bench`, `./dev test`, and the time of each. Wants root, debootstrap, git,
# 10 GB in $TMPDIR and half an hour; leaves nothing behind. Mirror, proxies, certificates and pip's
# settings are the host's.
set -euo pipefail

say() { printf 'bare_debian: %s\n' "$*" >&2; }

fail() {
  say "$*"
  exit 2
}

release=${1-}
[[ $# == 1 && $release =~ ^[a-z]+$ ]] || fail "usage: tools/bare_debian.sh bookworm|trixie"
((EUID == 0)) || fail "debootstrap and chroot want root: sudo $0 $release"
command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"

# Mounts are made in a namespace of the second call's own and end with it; the folder goes after them.
if [[ ! ${BARE_DEBIAN_FOLDER-} ]]; then
  BARE_DEBIAN_FOLDER=$(mktemp -d "${TMPDIR:-/var/tmp}/bare_debian.XXXXXX")
  export BARE_DEBIAN_FOLDER
  trap 'rm -rf --one-file-system "$BARE_DEBIAN_FOLDER"' EXIT
  unshare --mount "$0" "$release"
  exit
fi

source=$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel)
system=$BARE_DEBIAN_FOLDER/system
host_certificates=/etc/ssl/certs/ca-certificates.crt

# The first of the host's archives that is Debian's own.
mirror=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
  awk '$1 == "Debian" && $2 == "Debian" && !found { print $3; found = 1 }')
proxy=$(apt-config dump --format '%v' Acquire::http::Proxy)
if [[ $proxy && ! ${http_proxy-} ]]; then export http_proxy=$proxy; fi

say "debootstrap $release from ${mirror:=http://deb.debian.org/debian}"
debootstrap --variant=minbase "$release" "$system" "$mirror" >"$BARE_DEBIAN_FOLDER/log" 2>&1 || {
  tail "$BARE_DEBIAN_FOLDER/log" >&2
  fail "debootstrap failed"
}

# As the host reaches archives and PyPI.
apt-config dump | grep -E '^Acquire::(https?::|Retries)' >"$system/etc/apt/apt.conf.d/host" || true
for file in /etc/resolv.conf /etc/hosts /etc/pip.conf ~/.config/pip/pip.conf ~/.pip/pip.conf \
  "$host_certificates" /usr/local/share/ca-certificates/*; do
  if [[ -e $file ]]; then install -D -m 644 "$file" "$system$file"; fi
done
mapfile -t settings < <(env | grep -E '^(PIP_[A-Z_]+|https?_proxy|no_proxy|SSL_CERT_FILE)=')

mount -t proc proc "$system/proc"
mount --rbind /sys "$system/sys"
mount --rbind /dev "$system/dev"
git clone --quiet "$source" "$system/rapt"
say "$(git -C "$system/rapt" log -1 --format='%h %s')"

outcome=0
for command in bench test; do
  start=$SECONDS result=passed
  env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "${settings[@]}" \
    chroot "$system" /rapt/dev "$command" || result=FAILED outcome=1
  say "./dev $command on $release: $result in $((SECONDS - start)) s"
done
exit $outcome
