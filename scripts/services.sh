#!/bin/sh
# Start or stop the four servers that the tests use.
#
#   services.sh start      with Docker Compose where a Docker engine runs, else from Debian's packages
#   services.sh packages   from Debian's packages, whatever Docker says
#   services.sh stop       stop the compose project; servers from packages are left to the machine
#
# A server that already answers on its port is left alone. A server whose package is missing is named with the
# command that installs it; with INSTALL_SERVICES=1 and as root it is installed. Only a server that this script
# has installed is opened for the tests' accounts (root without a password, on this machine only).
set -eu
cd "$(dirname "$0")/.."

WAIT_SECONDS=${WAIT_SECONDS:-60}
FAILED=""

say() { printf '%-11s %s\n' "$1" "$2"; }

answers() { # port
    if command -v bash >/dev/null 2>&1; then
        bash -c "exec 3<>/dev/tcp/127.0.0.1/$1" >/dev/null 2>&1
    else
        python3 -c "import socket; socket.create_connection(('127.0.0.1', $1), 2).close()" >/dev/null 2>&1
    fi
}

wait_for() { # port
    remaining=$WAIT_SECONDS
    while [ "$remaining" -gt 0 ]; do
        answers "$1" && return 0
        sleep 1
        remaining=$((remaining - 1))
    done
    return 1
}

as_user() { # user, command...
    user=$1
    shift
    if [ "$(id -u)" = 0 ] && [ "$(id -un)" != "$user" ]; then
        runuser -u "$user" -- "$@"
    else
        "$@"
    fi
}

install_package() { # package
    if [ "${INSTALL_SERVICES:-0}" = 1 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "" "installing the package $1"
        [ -n "${APT_UPDATED:-}" ] || { apt-get update -qq && APT_UPDATED=1; }
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null
    else
        return 1
    fi
}

start_postgresql() { pg_ctlcluster --skip-systemctl-redirect "$(ls /etc/postgresql | sort -n | tail -1)" main start; }
start_mariadb() {
    [ -d /run/mysqld ] || install -d -o mysql -g mysql /run/mysqld # where no init system has made it
    start-stop-daemon --start --oknodo --background --exec /usr/sbin/mariadbd -- --user=mysql
}
start_redis() {
    redis-server --daemonize yes --bind 127.0.0.1 -::1 --port 6379 --save "" --appendonly no >/dev/null
}
start_rabbitmq() { rabbitmq-server -detached; }

open_postgresql() {
    for file in /etc/postgresql/*/main/pg_hba.conf; do
        grep -q "selfmanaged tests" "$file" && continue
        printf 'host all root 127.0.0.1/32 trust # selfmanaged tests\n' | cat - "$file" >"$file.new"
        chown --reference="$file" "$file.new" && chmod --reference="$file" "$file.new" && mv "$file.new" "$file"
    done
    as_user postgres psql -qc "SELECT pg_reload_conf()" >/dev/null
    as_user postgres createuser --superuser root
    as_user postgres createdb test
}
open_mariadb() {
    mariadb -e "ALTER USER root@localhost IDENTIFIED VIA mysql_native_password USING PASSWORD('');
        CREATE DATABASE IF NOT EXISTS test"
}
open_redis() { :; }
open_rabbitmq() { :; } # guest/guest is allowed from this machine by default

from_packages() { # name, port, program, package
    name=$1 port=$2 program=$3 package=$4
    if answers "$port"; then
        say "$name" "already answers on port $port"
        return
    fi
    fresh=0
    if ! command -v "$program" >/dev/null 2>&1; then
        if install_package "$package"; then
            fresh=1
        else
            say "$name" "is not installed; as root: apt-get install $package (or INSTALL_SERVICES=1 make services)"
            FAILED="$FAILED $name"
            return
        fi
    fi
    # The package's own start may have been faster than ours.
    answers "$port" || "start_$name" || true
    if ! wait_for "$port"; then
        say "$name" "does not answer on port $port after $WAIT_SECONDS s; see its log under /var/log"
        FAILED="$FAILED $name"
        return
    fi
    [ "$fresh" = 0 ] || "open_$name"
    say "$name" "started on port $port"
}

packages() {
    PATH=$PATH:/usr/sbin:/usr/lib/rabbitmq/bin
    from_packages postgresql 5432 pg_ctlcluster postgresql
    from_packages mariadb 3306 mariadbd mariadb-server
    from_packages redis 6379 redis-server redis-server
    from_packages rabbitmq 5672 rabbitmq-server rabbitmq-server
    if [ -n "$FAILED" ]; then
        echo "Not started:$FAILED. Tests that need them are skipped, or fail with REQUIRE_SERVICES=1." >&2
        exit 1
    fi
}

docker_runs() { command -v docker >/dev/null 2>&1 && docker info >/dev/null 2>&1; }

case "${1:-start}" in
start)
    if docker_runs; then
        docker compose up --detach --wait
    else
        packages
    fi
    ;;
packages) packages ;;
stop)
    if docker_runs; then
        docker compose down --volumes
    else
        echo "No Docker engine runs here; stop the packages' servers with the machine's own commands."
    fi
    ;;
*)
    echo "usage: $0 start|packages|stop" >&2
    exit 2
    ;;
esac
