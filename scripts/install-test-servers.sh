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

# A PostgreSQL package makes a database cluster, which starts at the next boot, unless this file says otherwise. One that
# is there already is the administrator's; ours stays, for it holds for the packages of later versions, too.
clusters=/etc/postgresql-common/createcluster.conf
forbid_clusters() {
	if [ ! -e "$clusters" ]; then
		"${as_root[@]}" mkdir -p "$(dirname "$clusters")"
		printf '# No cluster is made when a server package is installed; see pg_createcluster(1).\ncreate_main_cluster = false\n' |
			"${as_root[@]}" tee "$clusters" >/dev/null
	elif ! grep -Eq '^[[:space:]]*create_main_cluster[[:space:]]*=[[:space:]]*'"'?(false|off|no|0)" "$clusters"; then
		say "$clusters is there and does not forbid it: the package will make a cluster, which may start at the next boot"
	fi
}

# dpkg may be busy with somebody else's install: wait for it rather than fail. Another database's server that would have to
# go (mysql-server) is somebody's: fail rather than remove it. A configuration file that is there stays.
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive UCF_FORCE_CONFFOLD=1 apt-get -q -y -o DPkg::Lock::Timeout=300)
install() { "${apt[@]}" install --no-install-recommends --no-remove "${missing[@]}" </dev/null; }
known() {
	local package
	for package in "${missing[@]}"; do
		[ -n "$(apt-cache policy "$package" 2>/dev/null | sed -n '/Candidate: [^(]/p')" ] || return 1
	done
}

say "installing ${missing[*]}"
case " ${missing[*]} " in *" postgresql "*) forbid_clusters ;; esac
if ! known || ! install; then
	# The package lists are absent or too old.
	"${apt[@]}" update </dev/null || say "apt-get update failed; trying with the lists as they are"
	if ! install; then
		say "could not install ${missing[*]}: see apt-get's messages above."
		exit 1
	fi
fi

for package in "${missing[@]}"; do
	case $package in
	mariadb-server)
		if ! server=$(find_mariadb); then
			say "mariadb-server is installed, but mariadbd or mariadb-install-db is in none of: $PATH"
			exit 1
		fi
		# Nor is the distribution's instance wanted at the next boot.
		if command -v systemctl >/dev/null; then
			"${as_root[@]}" systemctl disable mariadb.service </dev/null >/dev/null 2>&1 ||
				say "could not disable mariadb.service: it may start at the next boot"
		fi
		;;
	postgresql)
		if ! server=$(find_postgres); then
			say "postgresql is installed, but postgres and initdb are in none of the usual places"
			exit 1
		fi
		;;
	esac
	say "installed $("$server" --version)"
done
