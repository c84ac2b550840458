#!/usr/bin/env bash
# try.sh PACKAGES [BASE]: installs what `./run package` made in an empty Debian 12 and uses it, as users do. BASE is a root
# made by `debootstrap --variant=minbase bookworm`; without it one is made in build/try/base. Needs root and the network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
packages=$(realpath "$1")
work=$PWD/build/try
base=${2:-$work/base}
[ "$(id -u)" -eq 0 ] || { echo "try.sh: needs root, for chroot and mount" >&2; exit 1; }
[ -n "$(ls "$packages"/attend_*.deb 2>/dev/null)" ] || { echo "try.sh: no packages; run ./run package first" >&2; exit 1; }
mkdir -p "$work"
if [ ! -d "$base/usr" ]; then
  command -v debootstrap >/dev/null || { echo "try.sh: debootstrap is not installed" >&2; exit 1; }
  debootstrap --variant=minbase bookworm "$base" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$work/base.log" ||
    { tail "$work/base.log" >&2; exit 1; }
fi

root=
leave() {
  [ -z "$root" ] || ! mountpoint -q "$root/proc" || umount "$root/proc"
}
trap leave EXIT

# A fresh copy of the base with the packages in /packages.
enter() {
  leave
  root=$work/$1
  leave  # what a killed run left
  rm -rf --one-file-system "$root"
  cp -a "$base" "$root"
  mount -t proc proc "$root/proc"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  mkdir "$root/packages"
  cp "$packages"/* "$root/packages/"
  cp -r tests/consumer "$root/consumer"
}

# Runs a command in the root, in a folder of its own, and shows it.
inside() {
  printf '\n$ %s\n' "$*"
  chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 TERM=dumb \
    DEBIAN_FRONTEND=noninteractive bash -ec "cd /root; $*"
}

echo "== The .deb files"
enter debian
inside 'apt-get update -qq'
inside 'apt-get install -y -qq --no-install-recommends /packages/attend_*.deb >/tmp/log 2>&1 || { cat /tmp/log; exit 1; }'
inside 'dpkg -s attend | grep -E "^(Version|Depends|Installed-Size)"'
inside 'attend --version'
inside 'attend demo -o dates'
inside 'attend translate dates "12 March 1984"'
inside 'apt-get install -y -qq --no-install-recommends man-db zsh fish fonts-dejavu-core >/tmp/log 2>&1'
inside 'man attend-train | head -n 12'
inside 'source /usr/share/bash-completion/completions/attend; COMP_WORDS=(attend tr) COMP_CWORD=1; _attend; echo "${COMPREPLY[@]}"'
inside 'zsh -fc "autoload -U compinit; compinit -D; echo \$_comps[attend]"'
inside 'fish -c "complete -C \"attend tr\""'
inside 'attend inspect dates "12 March 1984" -o heads.png && ls -l heads.png'

inside 'apt-get install -y -qq --no-install-recommends g++ cmake make /packages/libattend-dev_*.deb >/tmp/log 2>&1'
inside 'dpkg -s libattend-dev | grep -E "^(Version|Depends|Installed-Size)"'
inside 'cmake -S /consumer -B by-cmake >/dev/null && cmake --build by-cmake >/dev/null && by-cmake/consumer'
inside 'g++ -std=c++20 /consumer/main.cpp -o by-pkg-config $(pkg-config --cflags --libs attend) && ./by-pkg-config'

echo; echo "== The source archive, without Node"
inside 'apt-get install -y -qq --no-install-recommends ninja-build xz-utils nlohmann-json3-dev libcli11-dev libgtest-dev \
  >/tmp/log 2>&1'
inside 'tar -xf /packages/attend-*-source.tar.xz && ! command -v node'
inside 'cd attend-*/ && cmake --preset release | grep web:'

echo; echo "== The tar.gz, in a root without any of its libraries"
enter portable
inside 'tar -xf /packages/attend-*-linux-*.tar.gz && du -sh attend-*/'
inside 'ldd attend-*/bin/attend | grep -v "/root/attend"'
inside 'attend-*/bin/attend --version'
inside 'attend-*/bin/attend demo -o dates'
inside 'attend-*/bin/attend translate dates "12 March 1984"'
inside 'attend-*/bin/attend inspect dates "12 March 1984" -o heads.png; ls -l heads.png'
leave
root=
echo; echo "try.sh: everything worked; the roots are in $work"
