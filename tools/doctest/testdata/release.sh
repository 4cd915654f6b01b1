# The files of a release in the current directory. What asks a person is
# answered, what wants systemd is passed over.
VERSION=v1.0.0 COMMIT=0123456789 DATE=2026-01-02T03:04:05Z DIST=$work/dist tools/release linux/amd64
cd "$work/dist" || exit
mkdir -p /etc/systemd/system
PATH=/usr/local/bin:$PATH # what the page installs runs
registry() { if [ "$1" = htpasswd ]; then echo "a password" | command registry "$@"; else command registry "$@"; fi; }
systemctl() { :; }
install() { if [ "$3" = /dev/stdin ]; then echo "a password" | command install "$@"; else command install "$@"; fi; }
