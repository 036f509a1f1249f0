#!/usr/bin/env bash
# Installs the database servers that the tests start: mariadb-server and postgresql, from the distribution's packages.
#
# Nothing is done for a server that is there already. Packages are installed on Debian and its relatives only, as root or
# through a sudo that asks for no password; anywhere else the script says what is missing and exits with status 1.
# No service is started or enabled, no database cluster is made: the tests start private servers of their own.
set -euo pipefail

say() { printf 'install-test-servers: %s\n' "$*" >&2; }

# The places that internal/mariadbtest and internal/postgrestest look in, too.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/libexec:/usr/local/mysql/bin:/usr/local/mariadb/bin:/opt/homebrew/bin

# Prints the server's path. Oracle's MySQL has a mysqld too, but no installer of these names.
find_mariadb() {
	{ command -v mariadb-install-db || command -v mysql_install_db; } >/dev/null &&
		{ command -v mariadbd || command -v mysqld; }
}

# Prints the path of a server that has its initdb beside it: Debian keeps each version in a folder of its own.
find_postgres() {
	local dir server
	if command -v initdb >/dev/null && command -v postgres; then
		return
	fi
	for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/local/pgsql/bin /opt/homebrew/opt/postgresql*/bin; do
		server=$dir/postgres
		if [ -x "$server" ] && [ -x "$dir/initdb" ]; then
			printf '%s\n' "$server"
			return
		fi
	done
	return 1
}

missing=()
if server=$(find_mariadb); then
	say "MariaDB is installed: $server"
else
	missing+=(mariadb-server)
fi
if server=$(find_postgres); then
	say "PostgreSQL is installed: $server"
else
	missing+=(postgresql)
fi
if [ "${#missing[@]}" -eq 0 ]; then
	exit 0
fi

if ! command -v apt-get >/dev/null; then
	say "missing: ${missing[*]}; and there is no apt-get to install it with."
	say "Install MariaDB (mariadbd and mariadb-install-db) and PostgreSQL (postgres and initdb), then try again."
	exit 1
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
		say "missing: ${missing[*]}; and installing takes root or a sudo that asks for no password."
		say "Run: sudo apt-get install --no-install-recommends ${missing[*]}"
		exit 1
	fi
	as_root=(sudo -n)
fi

# The packages start the distribution's instances unless a policy forbids it. One that is there already is the
# administrator's: it stays as it is.
policy=/usr/sbin/policy-rc.d
# postgresql-common makes a cluster, which would start at the next boot, unless this file forbids it. The file is the
# package's own configuration: if it is there, an administrator has had a say, and it stays as it is. Ours is removed when
# the package is installed.
clusters=/etc/postgresql-common/createcluster.conf
made=()
cleanup() {
	if [ "${#made[@]}" -gt 0 ]; then
		"${as_root[@]}" rm -f "${made[@]}"
		made=()
	fi
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [ ! -e "$policy" ] && [ ! -L "$policy" ]; then
	made+=("$policy")
	printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
	"${as_root[@]}" chmod 755 "$policy"
fi
