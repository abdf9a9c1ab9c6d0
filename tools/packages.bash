# Debian and Ubuntu packages: which are missing, and how to get them. Sourced by ./dcpsim and
# .ci/run. Exit status 2: something is missing and was not installed.
# shellcheck shell=bash

say() { printf 'dcpsim: %s\n' "$*" >&2; }

die() {
  local status=$1
  shift
  say "$@"
  exit "$status"
}

# Whether this is Debian, Ubuntu or a descendant of them.
has_apt() (
  ID='' ID_LIKE=''
  # shellcheck source=/dev/null
  [[ ! -r /etc/os-release ]] || . /etc/os-release
  [[ " $ID $ID_LIKE " =~ \ (debian|ubuntu)\  ]]
)

# Prints those of the given packages that are not installed, separated by spaces.
missing_packages() {
  local states package missing=()
  states=$(dpkg-query --show --showformat "\${db:Status-Abbrev}\${Package}\n" "$@" 2>/dev/null) || true
  for package in "$@"; do
    # "ii" is installed, "hi" is installed and held.
    [[ $'\n'$states$'\n' == *$'\n'?"i $package"$'\n'* ]] || missing+=("$package")
  done
  printf '%s' "${missing[*]}"
}

# Installs what is missing of the given packages. Says first what it installs.
install_missing() {
  local missing as_root=()
  missing=$(missing_packages "$@")
  [[ -n $missing ]] || return 0
  [[ ${DCPSIM_NO_INSTALL:-0} != 1 ]] ||
    die 2 "missing packages, not installed because DCPSIM_NO_INSTALL=1: $missing"
  if ((EUID != 0)); then
    [[ -n $(type -P sudo) ]] || die 2 "missing packages, and there is no sudo to install them: $missing"
    as_root=(sudo)
  fi
  say "installing packages: $missing"
  run_apt update || say "apt-get update failed; trying with the lists that are there"
  # shellcheck disable=SC2086  # the names are separate words
  run_apt install --yes --no-install-recommends $missing || die 2 "could not install: $missing"
}

# Runs apt-get quietly, output on stderr. Uses the caller's `as_root`.
run_apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" >&2
}
