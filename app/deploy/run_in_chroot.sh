#!/usr/bin/env bash
# Run the steps of the Dockerfile in a fresh Debian root, start the server there and ask /health.
# Usage, as root, from the repository's root: app/deploy/run_in_chroot.sh FOLDER
# Needs mmdebstrap. It covers the packages, the files copied, the user, and that the server starts and
# answers. It does not cover the container runtime: a read-only root, dropped capabilities, networks.
set -euo pipefail
root=${1:?name a folder that does not exist yet}
dockerfile=app/deploy/Dockerfile
user=root directory=/ check=
declare -A variables=()

inside() {  # user, command
  local settings=()
  for name in "${!variables[@]}"; do settings+=("$name=${variables[$name]}"); done
  chroot --userspec="$1" "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp \
    PIP_CERT=/etc/certificates-of-the-host.crt "${settings[@]}" sh -c "cd $directory && $2"
}

assign() {  # NAME=VALUE...
  for pair in $1; do variables[${pair%%=*}]=${pair#*=}; done
}

while read -r step rest; do
  echo ">> $step $rest"
  case $step in
    FROM)
      suite=${rest#debian:}
      mmdebstrap --variant=minbase "${suite%-slim}" "$root" "${MIRROR:-http://deb.debian.org/debian}"
      cp /etc/resolv.conf "$root/etc/resolv.conf"
      # The certificates that this machine trusts; a package replaces those in /etc/ssl.
      cp -L "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" \
        "$root/etc/certificates-of-the-host.crt"
      cp /etc/hosts "$root/etc/hosts"
      mount -t proc proc "$root/proc"
      trap 'umount "$root/proc"' EXIT ;;
    ARG | ENV) assign "$rest" ;;
    WORKDIR) directory=$rest; mkdir -p "$root$rest" ;;
    COPY)
      read -ra words <<<"$rest"
      target=$root$directory/${words[-1]}
      [ -d "$target" ] || mkdir -p "$target"
      for source in "${words[@]:0:${#words[@]}-1}"; do
        if [ -d "$source" ]; then cp -r "$source/." "$target"; else cp "$source" "$target"; fi
      done ;;
    RUN) inside root "$rest" ;;
    USER) user=$rest ;;
    HEALTHCHECK) check=${rest#*CMD } ;;
    CMD)
      command=$(python3 -c 'import json, shlex, sys; print(shlex.join(json.loads(sys.argv[1])))' "$rest")
      # On this machine alone, so that no key is needed.
      inside "$user:$user" "FACE_HOST=127.0.0.1 exec $command --no-page" &
      server=$!
      trap 'kill $server 2>/dev/null; wait $server; umount "$root/proc"' EXIT
      for _ in $(seq 60); do
        if inside "$user:$user" "$check" 2>/dev/null; then echo "the server answers"; exit 0; fi
        sleep 1
      done
      echo "no answer from the server" >&2
      exit 1 ;;
  esac
done < <(grep -v '^#' "$dockerfile" | grep -v '^$')
