#!/bin/sh
# Starts what [access] in envlock.toml asked for, then runs the command it was given; without one, stays.
#
# ssh      keys alone open it. They come from AUTHORIZED_KEYS, PUBLIC_KEY or SSH_PUBLIC_KEY (one key a line), or from
#          a ~/.ssh/authorized_keys that is mounted. Port: SSH_PORT, by default 22 for root and 2222 for others.
# jupyter  opened by JUPYTER_TOKEN, or by a token that is made up and printed. Port: JUPYTER_PORT, by default 8888.
set -eu

access=" $(cat /etc/envlock/access) "
user=$(id -u)
home=$(getent passwd "$user" | cut -d: -f6)
home=${home:-${HOME:-/}}

say() { printf 'envlock-entrypoint: %s\n' "$*" >&2; }

add_keys() {
    umask 077
    mkdir -p "$home/.ssh"
    file=$home/.ssh/authorized_keys
    printf '%s\n' "${AUTHORIZED_KEYS:-}" "${PUBLIC_KEY:-}" "${SSH_PUBLIC_KEY:-}" | while IFS= read -r key; do
        case $key in '' | '#'*) continue ;; esac
        grep -qxF -- "$key" "$file" 2>/dev/null || printf '%s\n' "$key" >>"$file"
    done
    [ -s "$file" ] || say "ssh: no key may log in yet; give AUTHORIZED_KEYS, or mount $file"
}

# Sets the arguments that sshd runs with. Host keys are made here, at the first start: an image that held them would
# give every machine the same.
ssh_arguments() {
    (add_keys)
    if [ "$user" = 0 ]; then
        ssh-keygen -A >/dev/null
        mkdir -p /run/sshd
        sshd_options="-p ${SSH_PORT:-22}"
    else
        key=$home/.ssh/host_ed25519_key
        [ -f "$key" ] || ssh-keygen -q -t ed25519 -N '' -f "$key"
        sshd_options="-p ${SSH_PORT:-2222} -h $key -o UsePAM=no -o PidFile=none"
    fi
    sshd=$(command -v sshd || echo /usr/sbin/sshd)
}

jupyter_options() {
    options="--ip=0.0.0.0 --port=${JUPYTER_PORT:-8888} --no-browser"
    [ "$user" != 0 ] || options="$options --allow-root"
    printf '%s' "$options"
}

# The last of the services takes the shell's place where there is no command to run.
case $access in *' ssh '*)
    ssh_arguments
    say "ssh: listening ($sshd_options)"
    case $#$access in
        0*' jupyter '*) $sshd $sshd_options ;;
        0*) exec $sshd -D -e $sshd_options ;;
        *) $sshd $sshd_options ;;
    esac
    ;;
esac
case $access in *' jupyter '*)
    say "jupyter: listening on port ${JUPYTER_PORT:-8888}"
    [ $# -gt 0 ] || exec jupyter lab $(jupyter_options)
    jupyter lab $(jupyter_options) &
    ;;
esac
exec "$@"
