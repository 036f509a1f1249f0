#!/usr/bin/env bash
# Installs what make accuracy compares with: tcpdump and tshark, from the distribution's packages.
#
# Nothing is done for a tool that is there already. Packages are installed on Debian and its relatives only, as root or
# through a sudo that asks for no password; anywhere else the script says what is missing and exits with status 1.
set -euo pipefail

say() { printf 'install-accuracy-tools: %s\n' "$*" >&2; }

# The places that internal/accuracy looks in, too.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

missing=()
for tool in tcpdump tshark; do # Debian's packages have the tools' names
	if path=$(command -v "$tool"); then
		say "$tool is installed: $path"
	else
		missing+=("$tool")
	fi
done
if [ "${#missing[@]}" -eq 0 ]; then
	exit 0
fi

if ! command -v apt-get >/dev/null; then
	say "missing: ${missing[*]}; and there is no apt-get to install it with."
	say "Install tcpdump and Wireshark's tshark, then try again."
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

# dpkg may be busy with somebody else's install: wait for it rather than fail. Not interactive, Wireshark's package keeps
# its default: capturing stays root's.
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive UCF_FORCE_CONFFOLD=1 apt-get -q -y -o DPkg::Lock::Timeout=300)
install() { "${apt[@]}" install --no-install-recommends --no-remove "${missing[@]}" </dev/null; }

say "installing ${missing[*]}"
if ! install; then
	# The package lists are absent or too old.
	"${apt[@]}" update </dev/null || say "apt-get update failed; trying with the lists as they are"
	if ! install; then
		say "could not install ${missing[*]}: see apt-get's messages above."
		exit 1
	fi
fi
for tool in "${missing[@]}"; do
	if ! path=$(command -v "$tool"); then
		say "the package $tool is installed, but the tool is in none of: $PATH"
		exit 1
	fi
	say "installed $path"
done
