# shellcheck shell=bash
# The Python environment of a checkout: sourced by the scripts beside it, which it gives $checkout and $environment.
#
# `prepare_environment EXTRAS` returns once $environment holds the locked packages of these extras and the kernel as its
# sources are now. A run that was cut anywhere, a checkout that was moved and a Python that was replaced heal in the next
# run; of runs at the same time one works and the others wait. What pip and apt-get read (proxies, indexes, certificates)
# is left as the user has it.

# Where pip is to install, which users set for what they install themselves: in a virtual environment it would fail.
export PIP_USER=0
unset PIP_PREFIX PIP_ROOT PIP_TARGET

checkout=$(readlink -f -- "${BASH_SOURCE[0]}")
checkout=${checkout%/*/*}
environment=$checkout/.venv
constraints=$checkout/scripts/constraints.txt

# What the sources of pyfuse3 and of our kernel are built with; pip is among them because it does the installing.
build_tools=(pip setuptools setuptools-scm wheel Cython)

# Stamps, each written when what it vouches for is done and removed before that is touched: `packages` holds the digest
# and the extras of what pip installed, `kernel` the digests of the sources that were built and of what came of them,
# `bytecode` the digest of the modules that were compiled.
packages_stamp=$environment/packages
kernel_stamp=$environment/kernel
bytecode_stamp=$environment/bytecode

say() {
  printf 'kafkafs: %s\n' "$*" >&2
}

fail() {
  say "$@"
  exit 1
}

is_root() {
  ((EUID == 0))
}

# Does a step of a set-up: in full view on a terminal, elsewhere in silence unless it fails.
step() {
  local purpose=$1 log=$checkout/.cache/setup.log
  shift
  say "$purpose"
  if [[ -t 2 ]]; then
    "$@" </dev/null >&2 && return
  else
    "$@" </dev/null >"$log" 2>&1 && return
    cat -- "$log" >&2
  fi
  fail "$purpose failed: the reason is above; the next run starts over"
}

## Debian packages

# Prints a Python that is new enough, can make virtual environments and has its C headers, or fails.
find_python() {
  local name candidate
  for name in python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
    candidate=$(type -P "$name") || continue
    if "$candidate" -I - 2>/dev/null <<'PYTHON'
import ensurepip, os, sys, sysconfig, venv
ensurepip.version()
headers = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(sys.version_info < (3, 11) or not os.path.exists(headers))
PYTHON
    then
      printf '%s\n' "$candidate"
      return
    fi
  done
  return 1
}

is_installed() {
  [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# Prints the Debian packages to add before a set-up can work. It asks for what they do, not for their names, so that a
# Python or a compiler which came another way counts.
missing_for_setup() {
  local package
  if ! find_python >/dev/null; then
    for package in python3 python3-venv python3-dev; do
      is_installed "$package" || echo "$package"
    done
  fi
  gcc -E - <<<'#include <stdio.h>' >/dev/null 2>&1 || printf '%s\n' gcc libc6-dev
  if ! type -P pkg-config >/dev/null; then
    printf '%s\n' pkg-config libfuse3-dev
  elif ! pkg-config --exists fuse3; then
    echo libfuse3-dev
  fi
  type -P fusermount3 >/dev/null || echo fuse3
}

apt_get_install() {
  # An index that cannot be fetched again may still do; if not, the install says so.
  apt-get update || true
  DEBIAN_FRONTEND=noninteractive apt-get --option DPkg::Lock::Timeout=300 install --yes --no-install-recommends "$@"
}

# Installs Debian packages where that is possible. Elsewhere it fails and leaves `apt-get install` to the user.
install_debian_packages() {
  is_root && type -P apt-get >/dev/null || return
  mkdir -p -- "$checkout/.cache"
  step "installing Debian packages: $*" apt_get_install "$@"
}

require_debian_packages() {
  local missing
  mapfile -t missing < <(missing_for_setup)
  if ((${#missing[@]})); then
    install_debian_packages "${missing[@]}" ||
      fail "Debian packages are missing: run \`apt-get install ${missing[*]}\` as root, then this again"
  fi
  find_python >/dev/null ||
    fail "no Python on PATH is 3.11 or newer with venv, ensurepip and C headers: install one, then run this again"
}

## Virtual environments

# Makes a virtual environment from nothing, with the locked build tools in it.
make_virtual_environment() {
  "$(find_python)" -m venv --clear -- "$1" &&
    "$1/bin/python" -m pip install --constraint "$constraints" "${build_tools[@]}"
}

# Runs pip install with the locked versions in the virtual environment of $1.
pip_install() {
  local python=$1/bin/python
  shift
  # The build backend's warnings are for those who maintain pyproject.toml.
  PYTHONWARNINGS=ignore "$python" -m pip install --no-build-isolation --constraint "$constraints" "$@"
}

# Nothing of an earlier build is built upon: the compiler decides by time stamps, which can lie.
remove_kernel() {
  local source
  rm -rf -- "$checkout/build" \
    "$environment"/lib/python3*/site-packages/{kafkafs,~afkafs,__editable__.kafkafs,__editable___kafkafs}*
  find "$checkout/storage" -name '*.pyx' -print0 | while IFS= read -r -d '' source; do
    rm -f -- "${source%.pyx}.c" "${source%.pyx}".*.so
  done
}

# Translates and compiles as many modules at a time as there are processors. Cython needs a process for each, the compiler
# a thread of the build, which then finds the C files up to date.
compile_kernel() {
  local sources jobs settings=$environment/build.cfg
  remove_kernel
  cd -- "$checkout" || return
  jobs=$(nproc)
  mapfile -t sources < <(find storage -name '*.pyx')
  "$environment/bin/python" -P -m Cython.Build.Cythonize --quiet --parallel "$jobs" "${sources[@]}" &&
    printf '[build_ext]\nparallel = %s\n' "$jobs" >"$settings" &&
    DIST_EXTRA_CONFIG=$settings pip_install "$environment" --no-deps --editable .
}

# The digest of what decides which packages are right: the place, because a virtual environment holds absolute paths,
# the interpreter, and what is asked for.
packages_digest() {
  local python
  python=$(readlink -f -- "$environment/bin/python") || true
  sha256sum <<<"$checkout $python $(<"$checkout/pyproject.toml") $(<"$constraints")"
}

# The digest of what the kernel is built from, but for what decides on the packages: they go together.
kernel_sources() {
  find "$checkout/storage" \( -name '*.pyx' -o -name '*.pxd' -o -name '*.h' \) -exec sha256sum -- {} + |
    LC_ALL=C sort | sha256sum
}

# The digest of which compiled modules there are: somebody else may remove them, or build others over them.
built_kernel() {
  find "$checkout/storage" -name '*.so' -printf '%p %s %T@\n' | LC_ALL=C sort | sha256sum
}

# Writes a stamp whole or not at all.
write_stamp() {
  printf '%s\n' "$2" >"$1.new"
  mv -- "$1.new" "$1"
}

stamped() {
  [[ -f $1 ]] && printf '%s' "$(<"$1")"
}

packages_are_whole() {
  [[ $(stamped "$packages_stamp") == "$(packages_digest)"* ]]
}

# The extras that are installed, with commas between them; none if the packages are not whole.
installed_extras() {
  local stamp
  stamp=$(stamped "$packages_stamp")
  packages_are_whole && printf '%s' "${stamp##* }"
}

packages_are_ready() {
  local installed extra
  installed=,$(installed_extras),
  for extra in ${1//,/ }; do
    [[ $installed == *",$extra,"* ]] || return
  done
}

kernel_is_ready() {
  [[ $(stamped "$kernel_stamp") == "$(kernel_sources) $(built_kernel)" ]]
}

environment_is_ready() {
  packages_are_ready "$1" && kernel_is_ready
}

## Bytecode

# Where PYTHONDONTWRITEBYTECODE is set, as in many containers, Python would compile every module in each run. So it is
# compiled here, and again when a module changes. Python is right without it, so a failure is none of the caller's.
compile_bytecode() {
  "$environment/bin/python" -m compileall -q -j 0 "$@" >/dev/null 2>&1 || true
}

# The digest of which modules there are.
modules() {
  find "$checkout/kafkafs" "$checkout/storage" -name '*.py' -printf '%p %s %T@\n' 2>/dev/null | LC_ALL=C sort | sha256sum
}

# Compiles the modules of the checkout that changed. Another user's checkout is left as it is.
refresh_bytecode() {
  local found
  found=$(modules) || true # a directory that cannot be read does not keep the rest from running
  [[ $(stamped "$bytecode_stamp") != "$found" && -w $environment ]] || return 0
  compile_bytecode "$checkout/kafkafs" "$checkout/storage"
  write_stamp "$bytecode_stamp" "$found" 2>/dev/null || true # another run may have moved it into place
}

## Setting up

# Installs packages, without bytecode: pip compiles that on one processor, `compile_bytecode` on all.
install_packages() {
  (cd -- "$checkout" && pip_install "$environment" --no-compile --only-deps ".[$1]") || return
  compile_bytecode "$environment"/lib/python3*/site-packages
  write_stamp "$packages_stamp" "$(packages_digest) $1"
}

# Stamps what the sources were before the build: one that changes meanwhile makes the kernel stale.
build_kernel() {
  local sources
  sources=$(kernel_sources)
  (compile_kernel) || return
  write_stamp "$kernel_stamp" "$sources $(built_kernel)"
}

# Does both at once, since pip leaves all processors but one to the compiler. An interrupt ends both.
install_packages_and_build_kernel() {
  local installing code=0
  install_packages "$1" &
  installing=$!
  trap 'kill "$installing" 2>/dev/null; exit 130' INT
  build_kernel || code=$?
  wait "$installing" && return "$code"
}

set_up() {
  local extras=$1 whole=false
  trap 'exit 130' INT
  require_debian_packages
  if ! packages_are_ready "$extras"; then
    if packages_are_whole; then
      whole=true
      extras+=,$(installed_extras)
    fi
    rm -f -- "$packages_stamp"
    $whole || step "making a Python environment in $environment" make_virtual_environment "$environment"
    if kernel_is_ready; then
      step "installing Python packages (once, about a minute)" install_packages "$extras"
    else
      rm -f -- "$kernel_stamp"
      step "installing Python packages and building the kernel (once, about two minutes)" \
        install_packages_and_build_kernel "$extras"
    fi
  fi
  if ! kernel_is_ready; then
    rm -f -- "$kernel_stamp"
    step "building the kernel" build_kernel
  fi
  trap - INT
}

ensure_set_up() {
  local extras=$1 lock
  environment_is_ready "$extras" && return
  mkdir -p -- "$checkout/.cache" 2>/dev/null && [[ -w $checkout/.cache ]] || fail "cannot set up: $checkout is not writable"
  exec {lock}>"$checkout/.cache/setup.lock"
  # The lock is inherited by what a set-up starts, so that no other set-up works beside the remains of a killed one.
  if ! flock --nonblock "$lock"; then
    say "another run is setting this checkout up: waiting for it"
    flock "$lock"
  fi
  environment_is_ready "$extras" || set_up "$extras"
  exec {lock}>&-
}

prepare_environment() {
  ensure_set_up "$1"
  refresh_bytecode
}
