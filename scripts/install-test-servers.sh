#!/usr/bin/env bash
# Installs the database servers that the tests start: mariadb-server, from the distribution's packages.
#
# Nothing is done when a server is there already. Packages are installed on Debian and its relatives only, as root or
# through a sudo that asks for no password; anywhere else the script says what is missing and exits with status 1.
# No service is started or enabled: the tests start private servers of their own.
set -euo pipefail

say() { printf 'install-test-servers: %s\n' "$*" >&2; }

# The places that internal/mariadbtest looks in, too.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/libexec:/usr/local/mysql/bin:/usr/local/mariadb/bin:/opt/homebrew/bin

# Prints the server's path. Oracle's MySQL has a mysqld too, but no installer of these names.
find_mariadb() {
	{ command -v mariadb-install-db || command -v mysql_install_db; } >/dev/null &&
		{ command -v mariadbd || command -v mysqld; }
}

if server=$(find_mariadb); then
	say "MariaDB is installed: $server"
	exit 0
fi

if ! command -v apt-get >/dev/null; then
	say "MariaDB's server is missing and there is no apt-get to install it with."
	say "Install the package mariadb-server (mariadbd and mariadb-install-db), then try again."
	exit 1
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
		say "MariaDB's server is missing, and installing it takes root or a sudo that asks for no password."
		say "Run: sudo apt-get install --no-install-recommends mariadb-server"
		exit 1
	fi
	as_root=(sudo -n)
fi

# The package starts the distribution's instance unless a policy forbids it. One that is there already is the
# administrator's: it stays as it is.
policy=/usr/sbin/policy-rc.d
made_policy=
cleanup() {
	if [ -n "$made_policy" ]; then
		"${as_root[@]}" rm -f "$policy"
		made_policy=
	fi
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [ ! -e "$policy" ] && [ ! -L "$policy" ]; then
	made_policy=yes
	printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
	"${as_root[@]}" chmod 755 "$policy"
fi

# dpkg may be busy with somebody else's install: wait for it rather than fail. Another database's server that would have to
# go (mysql-server) is somebody's: fail rather than remove it.
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300)
install_mariadb() { "${apt[@]}" install --no-install-recommends --no-remove mariadb-server </dev/null; }

say "installing mariadb-server"
if [ -z "$(apt-cache policy mariadb-server 2>/dev/null | sed -n '/Candidate: [^(]/p')" ] || ! install_mariadb; then
	# The package lists are absent or too old.
	"${apt[@]}" update </dev/null || say "apt-get update failed; trying with the lists as they are"
	if ! install_mariadb; then
		say "could not install the package mariadb-server: see apt-get's messages above."
		exit 1
	fi
fi

if ! server=$(find_mariadb); then
	say "mariadb-server is installed, but mariadbd or mariadb-install-db is in none of: $PATH"
	exit 1
fi
# Nor is the distribution's instance wanted at the next boot.
if command -v systemctl >/dev/null; then
	"${as_root[@]}" systemctl disable mariadb.service </dev/null >/dev/null 2>&1 ||
		say "could not disable mariadb.service: it may start at the next boot"
fi
say "installed $("$server" --version)"
